"""Whose matter a failure is that no rule knows: config, data, dependency, or nothing that its structure tells.

The principle, in the order in which it is asked:

* **dependency**: what is installed does not fit. The message speaks of versions, builds, symbols or installing.
* **data**: the content of an input. It was raised while a sample was read or collated, by a package that reads files,
  or the message speaks of rows, columns, labels, samples.
* **config**: what the user chose from outside, and could change without touching the program. It was raised where
  arguments or configs are checked, or at set-up the message names a setting, lists what may be chosen, or compares
  sizes that settings give (batch, world size, heads, classes; a checkpoint against a model).

A bug's type (TypeError, AttributeError …) says nothing of settings, whoever raised it: only a dependency or a sample
can be behind it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tbparse.records import Frame
from tbparse.terms import Category

MAX_CHARS = 4000
"""Of longer messages the beginning is read."""
_BUGS = frozenset({
    "TypeError", "NameError", "UnboundLocalError", "AttributeError", "IndexError", "ZeroDivisionError", "RecursionError",
    "SyntaxError", "IndentationError", "TabError", "StopIteration",
})  # fmt: skip

_DEPENDENCY_TYPE = r"(?:^|\.)(?:ImportError|ModuleNotFoundError|\w*Version\w*|Deprecated\w*|\w*BackendError\w*)$"
_DEPENDENCY = (
    r"undefined symbol|shared object file|\bDLL\b|GLIBC|\bABI\b|(?i:"
    r"\b(?:pip|conda|apt(?:-get)?|uv) install\b|\b(?:please|to) (?:re-?)?install\b|not (?:properly |correctly )?installed"
    r"|\b(?:upgrade|downgrade) (?:to|your|the|it|\w+ (?:to|version)|[a-z_.-]+$)|\bplease (?:upgrade|update)"
    r"|\b(?:was|were|been|is|are) (?:removed|deprecated)\b|\bno longer (?:supported|available|exists?|part of)\b"
    r"|\brequires? (?:at least |the |a )?(?:\S+ ){0,2}version"
    r"|\brequires? (?:\S+ ){0,3}(?:\S+)?(?:[><~=]=|[<>] ?\d)|\b(?:in)?compatible version"
    r"|\bversion of \S+ (?:is|must|you)"
    r"|\b(?:newer|older|latest|minimum|wrong) version|\bversion mismatch|\bversions? (?:is|are) (?:too|not|in)|out of date"
    r"|\bcompiled (?:with|for|against|using|without)\b|not built (?:with|for)|\bbuilt (?:against|with a different)"
    r"|unable to (?:JIT )?load the \w+ op|could not load lib|numpy_[12]_\d|numpy 2(?:\.0)?\b|migration.guide"
    r"|failed to find \w+ compiler|is required to (?:load|build|compile))"
)
_MODULE_ATTRIBUTE = r"module '[\w.]+' has no attribute|'_OpNamespace'"

_CALL = (
    r"^(?!(?:\w+\.)*(?:forward|<lambda>|\w+_step|\w*collate\w*|compute_\w+|main|wrapper|\w+_fn)\(\))[\w.]+\(\) "
    r"(?:got an unexpected keyword argument|missing \d+ required|takes .{0,40}positional argument|got multiple values for)"
)
"""A call that does not fit: the frame that raises it is the caller's."""
_HANDS_ON = (
    r"/torch/(?:nn/|utils/|multiprocessing/|_dynamo/|autograd/)|/(?:ray|optuna|joblib|dask|distributed|click|typer|fire|absl|celery|pluggy"
    r"|_pytest|lightning|pytorch_lightning|hydra|wrapt|decorator|multiprocess|apply|gymnasium|keras|flax|jax)(?:/|\.py$|\w*/)"
)
"""Files that call what the user gave them: a call that does not fit is the user's there."""
_CIRCULAR = r"circular import"

_SAMPLE = (
    r"torch/utils/data/_utils/|-packages/datasets/packaged_modules/\w+/\w+\.py:(?:_generate|_cast|_split)"
    r"|-packages/datasets/\w+(?:/\w+)?\.py:(?:\w*apply_function\w*|_?map\w*|iter_outputs|_prepare_split_single|write\w*|\w*cast\w*"
    r"|(?:en|de)code_\w+|_arrow_array_to_numpy|format_\w+)"
    r"|-packages/(?:webdataset|torchvision/(?:datasets|io)|pycocotools|albumentations)/"
)
_SAMPLE_FUNCTION = r"^(?:\w+\.)?(?:__getitem__|__getitems__|\w*collate\w*|load_(?:sample|image|audio|item|record)\w*)$"
_NO_SAMPLES_FAULT = frozenset({"NameError", "UnboundLocalError", "AttributeError", "NotImplementedError", "SyntaxError"})
_MAPPINGS = r"/(?:omegaconf|os|collections|tokenization_utils_base|registry|modules)\b[^/]*\.pyx?$|/omegaconf/"
"""Files whose ``__getitem__`` looks something up that is no sample."""
_READERS = frozenset({
    "PIL", "cv2", "imageio", "soundfile", "librosa", "audioread", "torchaudio", "torchcodec", "decord", "av", "pandas",
    "pyarrow", "polars", "csv", "zipfile", "tarfile", "gzip", "zlib", "bz2", "lzma", "zstandard", "h5py", "zarr", "rasterio",
    "lmdb", "webdataset", "nibabel", "pydicom", "SimpleITK", "trimesh", "pycocotools", "nltk", "tifffile", "skimage", "fastparquet",
    "duckdb", "tfrecord", "laspy", "open3d", "mne", "sentencepiece",
})  # fmt: skip
"""Packages that read the content of files: their own types, and the errors of reading that they raise."""
_CAPACITY = r"Full|Limit|Lock|Busy|Timeout|Connection"
_READING = frozenset(
    {"OSError", "IOError", "RuntimeError", "EOFError", "KeyError", "UnicodeDecodeError", "JSONDecodeError", "error"}
)
_DATA = (
    r"(?i:\b(?:contains?|has|have|found) (?:NaN|inf(?:inity)?|null)\b|\b(?:corrupt(?:ed)?|malformed|unreadable)\b"
    r"|\btruncated (?:file|image|data|archive|header|record)"
    r"|\b(?:columns?|features?|fields?)\b.{0,80}\b(?:missing|not (?:in|found)|do(?:es)? not (?:exist|match)|don't match"
    r"|duplicate)"
    r"|\bmissing (?:columns?|features?|fields?|labels?)\b|\bfeature names?\b"
    r"|\b(?:no|0|zero|empty|any) (?:valid |usable )?(?:data (?:found|in|left)|samples?|examples?|images?|rows?"
    r"|records?|annotations?|data files?|training data)\b"
    r"|\btoo few\b|\bleast populated|\b(?:only|just) (?:one|1) (?:class|member|sample)|\bbbox|\bbounding box|\bannotations?\b"
    r"|\bcoco set\b|\bout of vocabulary\b|\b(?:data)?set (?:is|was|seems|appears)? ?empty\b|\bempty (?:data)?set\b"
    r"|\bEmpty Logs\b"
    r"|\bnumber of samples\b|\blabels? must be in\b|\bunknown label type\b|\binconsistent numbers of samples)"
)

_CONFIG_TYPE = (
    r"(?:^|\.)(?:\w*Config\w*(?:Error|Exception)?|Misconfiguration\w*|ArgumentError|ArgumentTypeError|UsageError|BadParameter"
    r"|ValidationError|\w*OptionError|\w*SettingsError|MissingMandatoryValue|Interpolation\w*|\w*Credentials\w*"
    r"|\w*Authenticat\w*|\w*Unauthori[sz]ed\w*|\w*Forbidden\w*|\w*AccessDenied\w*|PermissionDenied\w*|\w*NotRegistered\w*"
    r"|OfflineModeIsEnabled|LocalEntryNotFoundError|(?:Repository|Revision|Entry)NotFoundError|HFValidationError"
    r"|Invalid(?:URL|Schema)"
    r"|Missing(?:URL|Schema))$"
)
_CONFIG_PATH = (
    r"(?:^|/)(?:\w+_)?(?:arguments?|args|options?|settings|config\w*|conf|cfg|hparams|flags|parallel_dims)\.py$"
    r"|(?:^|/)(?:argparse|omegaconf|hydra|pydantic\w*|click|jsonargparse|tyro|yacs|configargparse|ml_collections|gin"
    r"|dotenv)(?:/|\.py)"
    r"|/yaml/|/ruamel/|/toml\w*/|tomllib|/(?:commands|cli)/|/launch\w*\.py$"
)
_BUILDS = r"trainer\w*\.py$|plugins?\.py$|/dataclasses\.py$|accelerator\w*\.py$|/strateg\w+(?:/|\.py)"
"""Files whose constructors take nothing but settings."""
_NOUN = (
    r"(?:args?|arguments?|argv|cfg|conf|config|configs|configuration|options?|hparams|settings|flags?|overrides|environment"
    r"|env)"
)
_CONFIG_FUNCTION = (
    rf"^(?:\w+\.)*_*(?:parse_known_args|\w*_?{_NOUN}(?:_\w+)?|build_from_cfg|__post_init__|_batch_assertion|_check_head"
    r"|validate|_validate\w*|validate_\w+|_verify\w*|sanity_check\w*)$"
)
_SETUP = (
    r"^(?:\w+\.)*_*(?:__init__|<module>|main|call|run|(?:from|build|create|make|setup|set|init|prepare|configure|load|get"
    r"|select"
    r"|resolve|register|restore|resume|launch|wrap|apply|inject|instantiate|check|validate|verify|as|rel|read|parse|find"
    r"|choose"
    r"|new|start|fit|train|before|on|generate)(?:_\w+)?)$"
)
_RUNNING = r"^(?:\w+\.)*(?:forward|__call__|_?step|backward|training_step|loss|compute_loss|_conv_forward|\w*_forward)$"
_COMPUTING = (
    r"/torch/(?:nn/|functional|_tensor|_ops|autograd/|linalg/|amp/|cuda/amp/|_C/|_refs|sparse|fft)|/numpy/|/scipy/"
    r"|/jax/_src/(?:numpy|lax)/|/flax/(?:linen|core)/|/keras/(?:src/)?(?:layers|ops|backend|losses)/"
    r"|/tensorflow/python/(?:ops|eager|framework)/"
)
"""Files that compute: what they refuse are values of the program, not settings."""
_NAMED = (
    r"(?<![\w-])--[a-zA-Z][\w-]+|[`'\"][a-z][a-z0-9]*(?:_[a-z0-9]+)+(?:\s?=[^`'\"]*)?[`'\"]"
    r"|\b[a-z][a-z0-9]*(?:_[a-z0-9]+)+\s?=(?!=)"
    r"|\b[a-z]+(?:_[a-z0-9]+)+(?= (?:must|should|cannot|can't|is (?:not|required|set)))"
)
"""A setting's name as libraries print it: a flag, a quoted name with an underscore, ``name=``."""
_DEMAND = (
    r"(?i:\b(?:must|should|needs?|requires?|required|cannot|can't|can not|could not|invalid|unknown|only|expected|please"
    r"|unless"
    r"|not (?:supported|allowed|valid|set|found|both|compatible)|either|instead|mismatch|incompatible|specify|pass"
    r"|ends? with)\b)"
)
_CHOICE = (
    r"(?i:\b(?:unknown|unrecogni[sz]ed|unsupported|invalid|unexpected|no such|undefined|not a valid)"
    r" (?:\w+ )?(?:model|optimi[sz]er|scheduler|loss|backbone|arch\w*|task|dataset|strategy|backend|precision|mode|option"
    r"|choice|argument"
    r"|flag|config\w*|setting|method|split|metric|activation|quanti[sz]ation|dtype|env(?:ironment)?|algorithm|policy"
    r"|tokenizer|device"
    r"|keys?|parameter|accelerator|plugin|callback|encoder|decoder|head|layer type|format|objective|value for)\b"
    r"|\b(?:should|must|has to|needs to) be (?:one of|in|set|specified|a path|an existing|either|exactly|consistent)\b"
    r"|\b(?:available|valid|supported|possible|allowed|known|registered) (?:\w+ ){0,3}(?:are|is|include)?: ?\S"
    r"|\bavailable: ?[\[({'\"]"
    r"|\bchoose (?:from|one)|\b(?:could not|cannot|can't) find (?:the )?(?:\w+ ){0,3}(?:class|layer|module|backend|strategy)"
    r"|\bis not (?:registered|available|a (?:valid|supported|known))|\bnot in the \w+ registry"
    r"|\b(?:is )?not supported for (?:this|the)|\bshould be one of\b|\bsupported values?\b)"
)
_SIZES = (
    r"(?i:(?:batch.?size|world.?size|\bnum_\w+|\bnumber of (?:\w+ ){0,2}(?:heads|gpus?|devices|layers|ranks|processes"
    r"|workers|experts"
    r"|classes|epochs|steps|stages|microbatches)|parallel.?(?:size|dims?)|pipeline|hidden.?size|learning rate|warm.?up"
    r"|max.?steps)"
    r".{0,160}(?:divisible|multiple of|must|should|cannot|exceed|match|greater|less|smaller|larger|positive|equal|!="
    r"|at least|invalid))"
    r"|(?i:(?:divisible|multiple of|!=|does not match|exceeds).{0,120}(?:batch.?size|world.?size|num_\w+|parallel.?size"
    r"|CLASSES))"
)
_CHECKPOINT = (
    r"(?i:(?:checkpoint|state[_ ]?dict|weights|on-disk|restor\w+|pretrained|adapter)\b.{0,200}"
    r"(?:mismatch|missing|(?:do(?:es)?|did) not match|don't match|unexpected key|not found|different|incompatible"
    r"|can't find|cannot find)"
    r"|(?:size|shape) mismatch.{0,80}(?:saved|checkpoint|param)|(?:can't|cannot|couldn't|could not) (?:find"
    r"|load) (?:a valid )?"
    r"(?:checkpoint|tokenizer|model|config\w*|weights)|(?:no|not) .{0,40}(?:checkpoint|weights) (?:found|file))"
)
_CONFIG = (
    r"(?i:\b(?:bad|invalid|wrong|missing|malformed|inconsistent|illegal) (?:\w+ )?(?:config\w*"
    r"|arguments?(?! \d)|options?|settings?|flags?|hyper-?parameters?)"
    r"|\bconfig(?:uration)?(?: file)?\b.{0,80}(?:must|should|missing|invalid|mismatch|inconsistent|not (?:found|exist|set"
    r"|support))"
    r"|\benvironment variable|\bcommand.?line\b|\bnot in struct\b|\bno such option\b|\brepo(?:sitory)? id\b"
    r"|\btrust_remote_code\b"
    r"|\boffline\b|\bcredentials?\b|\bapi[ _-]key\b|\baccess[ _]?(?:denied|token)|\bpermission denied\b|\bunauthori[sz]ed\b"
    r"|\bforbidden\b"
    r"|\b(?:401|403|404|407|410)\b(?: Client Error| Forbidden| Unauthori[sz]ed| Not Found| GET|:)|\bnot authori[sz]ed\b"
    r"|\berror code 40[134]\b"
    r"|An error occurred \((?:4\d\d|NoSuch\w+|AccessDenied|Expired\w*|Signature\w*|Invalid\w*)\)|\bcertificate\b)"
)
_CONFIG_FILE = (
    r"(?i:[\w.{}-]\.(?:ya?ml|toml|ini|cfg|conf|gin)\b|(?:^|[/'\"\\])\w*(?:config|args|settings|hparams)\w*\.(?:json|py)\b)"
)
_CONFIG_SOURCE = (
    r"\bos\.environ|\bgetenv\(|^\s*(?:raise|assert)\b.*\b(?:cfg|conf|config|hparams|settings|FLAGS|args|opts?)(?:\.|\[)"
)
"""A line of the user's that reads what was given from outside."""
_CONFIG_LOOKUP = r"\b(?:cfg|conf|config|configs|hparams|settings|FLAGS|args|opts?)\s*(?:\[|\.)"
_NO_SETTING = r"^'(?:Namespace|DictConfig|EasyDict|AttrDict|Munch|ConfigDict|CfgNode|FlagValues|Config)' object has no attribute"


def _has(pattern: str, text: str) -> bool:
    """Whether the pattern is found; compiled when it is first asked for, since most answers need none of them."""
    return re.search(pattern, text) is not None


def category_of(exception: str, message: str, frames: Sequence[Frame]) -> Category | None:
    """Config, data or dependency; None where the structure tells neither. ``frames`` outermost first, without plumbing."""
    name, message = exception.rpartition(".")[2], message[:MAX_CHARS]
    shown = f"{exception}: {message}"
    paths = [x.path.replace("\\", "/") for x in frames]
    last = frames[-1] if frames else None
    function = (last.function or "") if last else ""
    if _has(_CIRCULAR, message):
        return None
    if _has(_DEPENDENCY_TYPE, exception) or _has(_DEPENDENCY, message) or _has(_MODULE_ATTRIBUTE, message):
        return "dependency"
    if (
        name == "TypeError"
        and _has(_CALL, message)
        and last is not None
        and last.origin == "library"
        and not _has(_HANDS_ON, paths[-1])
    ):
        return "dependency"
    if _reads_a_sample(exception, name, frames, paths):
        return "data"
    source = (last.source or "") if last is not None and last.origin == "user" else ""
    if (name == "KeyError" and _has(_CONFIG_LOOKUP, source)) or (name == "AttributeError" and _has(_NO_SETTING, message)):
        return "config"
    if name in _BUGS or function.startswith("test_"):
        return None
    if _has(_CONFIG_TYPE, exception):
        return "config"
    if name in ("FileNotFoundError", "JSONDecodeError", "ParserError", "ScannerError", "NotADirectoryError", "FileExistsError"):
        told = _has(_CONFIG_FILE, message) or any(_has(_CONFIG_FUNCTION, x.function or "") for x in frames[-4:])
        if told or any(_has(_CONFIG_PATH, p) for p in paths[-3:]):
            return "config"
        return "data" if name in ("FileNotFoundError", "JSONDecodeError", "NotADirectoryError") else None
    if name == "UnicodeDecodeError":
        return "data"
    if _has(_CONFIG_SOURCE, source):
        return "config"
    if _has(_COMPUTING, paths[-1] if paths else "") and function != "load_state_dict":
        return "data" if _has(_DATA, message) else None
    if name == "KeyError" and not _has(_CHOICE, message):
        return None
    if function == "__init__" and last is not None and last.origin == "library" and _has(_BUILDS, paths[-1]):
        return "config"
    if any(_checks_config(x, p) for x, p in zip(frames[-2:], paths[-2:], strict=True)) or _has(_CONFIG, shown):
        return "config"
    if _has(_DATA, message):
        return "data"
    if not _has(_RUNNING, function) and (_has(_CHOICE, message) or _has(_SIZES, message) or _has(_CHECKPOINT, message)):
        return "config"
    if (not function or _has(_SETUP, function)) and _has(_NAMED, message) and _has(_DEMAND, message):
        return "config"
    return None


def _checks_config(frame: Frame, path: str) -> bool:
    return bool(_has(_CONFIG_FUNCTION, frame.function or "") or _has(_CONFIG_PATH, path))


def _reads_a_sample(exception: str, name: str, frames: Sequence[Frame], paths: Sequence[str]) -> bool:
    """Whether it was raised while a sample was read, or by a package that reads files."""
    top = exception.partition(".")[0]
    if name in _NO_SAMPLES_FAULT or _has(_CAPACITY, name):
        return False
    if top in _READERS and top != exception and name not in _BUGS:
        return True
    if not frames:
        return False
    if _package(paths[-1]) in _READERS and name in _READING:
        return True
    return any(
        _has(_SAMPLE, f"{p}:{x.function}") or (_has(_SAMPLE_FUNCTION, x.function or "") and not _has(_MAPPINGS, p))
        for x, p in zip(frames[-6:], paths[-6:], strict=True)
    )


def _package(path: str) -> str:
    """The package of an installed file, or the module's name."""
    for root in ("site-packages/", "dist-packages/"):
        if root in path:
            path = path.rpartition(root)[2]
            break
    else:
        path = path.rpartition("/")[2] if "lib/python" in path or "/" not in path else ""
    return path.partition("/")[0].partition(".")[0]
