"""The words, files and types by which :mod:`tbparse.ruleset.kinds` tells settings, inputs and packages apart.

Patterns are texts: ``re`` compiles one when it is first asked for, and most answers need none of them.
"""

from __future__ import annotations

from tbparse.ruleset.match import PROGRAMMING
from tbparse.terms import Category

BUGS = (PROGRAMMING - {"KeyError", "NotImplementedError"}) | {"StopIteration"}
"""Of the types that a bug raises those behind which no setting can stand: a missing key or a refused feature may be one."""

DEPENDENCY_TYPE = r"(?:^|\.)(?:ImportError|ModuleNotFoundError|\w*Version\w*|Deprecated\w*|\w*BackendError\w*)$"
DEPENDENCY = (
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
MODULE_ATTRIBUTE = r"module '[\w.]+' has no attribute|'_OpNamespace'"

CALL = (
    r"^(?!(?:\w+\.)*(?:forward|<lambda>|\w+_step|\w*collate\w*|compute_\w+|main|wrapper|\w+_fn)\(\))[\w.]+\(\) "
    r"(?:got an unexpected keyword argument|missing \d+ required|takes .{0,40}positional argument|got multiple values for)"
)
"""A call that does not fit: the frame that raises it is the caller's."""
HANDS_ON = (
    r"/torch/(?:nn/|utils/|multiprocessing/|_dynamo/|autograd/)|/(?:ray|optuna|joblib|dask|distributed|click|typer|fire|absl|celery|pluggy"
    r"|_pytest|lightning|pytorch_lightning|hydra|wrapt|decorator|multiprocess|apply|gymnasium|keras|flax|jax)(?:/|\.py$|\w*/)"
)
"""Files that call what the user gave them: a call that does not fit is the user's there."""
CIRCULAR = r"circular import"

SAMPLE = (
    r"torch/utils/data/_utils/|-packages/datasets/packaged_modules/\w+/\w+\.py:(?:_generate|_cast|_split)"
    r"|-packages/datasets/\w+(?:/\w+)?\.py:(?:\w*apply_function\w*|_?map\w*|iter_outputs|_prepare_split_single|write\w*|\w*cast\w*"
    r"|(?:en|de)code_\w+|_arrow_array_to_numpy|format_\w+)"
    r"|-packages/(?:webdataset|torchvision/(?:datasets|io)|pycocotools|albumentations)/"
)
SAMPLE_FUNCTION = r"^(?:\w+\.)?(?:__getitem__|__getitems__|\w*collate\w*|load_(?:sample|image|audio|item|record)\w*)$"
NO_SAMPLES_FAULT = frozenset({"NameError", "UnboundLocalError", "AttributeError", "NotImplementedError", "SyntaxError"})
MAPPINGS = r"/(?:omegaconf|os|collections|tokenization_utils_base|registry|modules)\b[^/]*\.pyx?$|/omegaconf/"
"""Files whose ``__getitem__`` looks something up that is no sample."""
READERS = frozenset({
    "PIL", "imageio", "soundfile", "librosa", "audioread", "torchaudio", "torchcodec", "decord", "av", "pandas",
    "pyarrow", "polars", "csv", "zipfile", "tarfile", "gzip", "zlib", "bz2", "lzma", "zstandard", "h5py", "zarr", "rasterio",
    "lmdb", "webdataset", "nibabel", "pydicom", "SimpleITK", "trimesh", "pycocotools", "nltk", "tifffile", "skimage", "fastparquet",
    "duckdb", "tfrecord", "laspy", "open3d", "mne", "sentencepiece",
})  # fmt: skip
"""Packages that read the content of files: their own types, and the errors of reading that they raise."""
CAPACITY = r"Full|Limit|Lock|Busy|Timeout|Connection"
READING = frozenset(
    {"OSError", "IOError", "RuntimeError", "EOFError", "KeyError", "UnicodeDecodeError", "JSONDecodeError", "error"}
)
DATA = (
    r"(?i:\b(?:contains?|has|have|found) (?:NaN|inf(?:inity)?|null)\b|\b(?:corrupt(?:ed)?|malformed|unreadable)\b"
    r"|\btruncated (?:file|image|data|archive|header|record)"
    r"|\b(?:columns?|features?|fields?)\b.{0,80}\b(?:missing|not (?:in|found)|do(?:es)? not (?:exist|match)|don't match"
    r"|duplicate)"
    r"|\bmissing (?:columns?|features?|fields?|labels?)\b|\bfeature names?\b"
    r"|\b(?:no|0|zero|empty|any) (?:valid |usable )?(?:data (?:found|in|left)|samples?|examples?|images?|rows?"
    r"|records?|annotations?|data files?|training data)\b"
    r"|\btoo few\b|\bleast populated|\b(?:only|just) (?:one|1) (?:class|member|sample)|\bbbox|\bbounding box|\bannotations?\b"
    r"|\bcoco set\b|!\S{0,20}\.empty\(\)"
    r"|\bout of vocabulary\b|\b(?:data)?set (?:is|was|seems|appears)? ?empty\b|\bempty (?:data)?set\b"
    r"|\bEmpty Logs\b"
    r"|\bnumber of samples\b|\blabels? must be in\b|\bunknown label type\b|\binconsistent numbers of samples)"
)

CONFIG_TYPE = (
    r"(?:^|\.)(?:\w*Config\w*(?:Error|Exception)?|Misconfiguration\w*|ArgumentError|ArgumentTypeError|UsageError|BadParameter"
    r"|ValidationError|\w*OptionError|\w*SettingsError|MissingMandatoryValue|Interpolation\w*|\w*Credentials\w*"
    r"|\w*Authenticat\w*|\w*Unauthori[sz]ed\w*|\w*Forbidden\w*|\w*AccessDenied\w*|PermissionDenied\w*|\w*NotRegistered\w*"
    r"|OfflineModeIsEnabled|LocalEntryNotFoundError|(?:Repository|Revision|Entry)NotFoundError|HFValidationError"
    r"|Invalid(?:URL|Schema)"
    r"|Missing(?:URL|Schema))$"
)
CONFIG_PATH = (
    r"(?:^|/)(?:\w+_)?(?:arguments?|args|options?|settings|config\w*|conf|cfg|hparams|flags|parallel_dims)\.py$"
    r"|(?:^|/)(?:argparse|omegaconf|hydra|pydantic\w*|click|jsonargparse|tyro|yacs|configargparse|ml_collections|gin"
    r"|dotenv)(?:/|\.py)"
    r"|/yaml/|/ruamel/|/toml\w*/|tomllib|/(?:commands|cli)/|/launch\w*\.py$"
)
BUILDS = r"trainer\w*\.py$|plugins?\.py$|/dataclasses\.py$|accelerator\w*\.py$|/strateg\w+(?:/|\.py)"
"""Files whose constructors take nothing but settings."""
VERB = (
    r"(?:parse|validate|check|verify|load|read|get|create|build|process|set|setup|init|initialize|prepare|merge|update|override"
    r"|overwrite|resolve|from|add|convert|make|finalize|sanity_check|apply|compose|restore|fill|infer|normalize)"
)
NOUN = r"(?:args?|arguments?|argv|cfg|conf|configs?|configuration|options?|hparams|settings|flags?|overrides|environment)"
CONFIG_FUNCTION = (
    rf"^(?:\w+\.)*_*(?:parse_known_args|(?:from|load|read)_env(?:_\w+)?|{VERB}_(?:\w+_)?{NOUN}(?:_\w+)?|{NOUN}"
    r"|build_from_cfg|__post_init__|_batch_assertion|_check_head"
    r"|validate|_validate\w*|validate_\w+|_verify\w*|sanity_check\w*)$"
)
SETUP = (
    r"^(?:\w+\.)*_*(?:__init__|<module>|main|call|run|(?:from|build|create|make|setup|set|init|prepare|configure|load|get"
    r"|select"
    r"|resolve|register|restore|resume|launch|wrap|apply|inject|instantiate|check|validate|verify|as|rel|read|parse|find"
    r"|choose"
    r"|new|start|fit|train|before|on|generate)(?:_\w+)?)$"
)
RUNNING = r"^(?:\w+\.)*(?:forward|__call__|_?step|backward|training_step|loss|compute_loss|_conv_forward|\w*_forward)$"
COMPUTING = (
    r"/torch/(?:nn/|functional|_tensor|_ops|autograd/|linalg/|amp/|cuda/amp/|_C/|_refs|sparse|fft)|/numpy/|/scipy/"
    r"|/jax/_src/(?:numpy|lax)/|/flax/(?:linen|core)/|/keras/(?:src/)?(?:layers|ops|backend|losses)/"
    r"|/tensorflow/python/(?:ops|eager|framework)/"
)
"""Files that compute: what they refuse are values of the program, not settings."""
NAMED = (
    r"(?<![\w-])--[a-zA-Z][\w-]+|[`'\"][a-z][a-z0-9]*(?:_[a-z0-9]+)+(?:\s?=[^`'\"]*)?[`'\"]"
    r"|\b[a-z][a-z0-9]*(?:_[a-z0-9]+)+\s?=(?!=)"
    r"|\b[a-z]+(?:_[a-z0-9]+)+(?= (?:must|should|cannot|can't|is (?:not|required|set)))"
)
"""A setting's name as libraries print it: a flag, a quoted name with an underscore, ``name=``."""
DEMAND = (
    r"(?i:\b(?:must|should|needs?|requires?|required|cannot|can't|can not|could not|invalid|unknown|only|expected|please"
    r"|unless"
    r"|not (?:supported|allowed|valid|set|found|both|compatible)|either|instead|mismatch|incompatible|specify|pass"
    r"|ends? with)\b)"
)
CHOICE = (
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
SIZES = (
    r"(?i:(?:batch.?size|world.?size|\bnum_\w+|\bnumber of (?:\w+ ){0,2}(?:heads|gpus?|devices|layers|ranks|processes"
    r"|workers|experts"
    r"|classes|epochs|steps|stages|microbatches)|parallel.?(?:size|dims?|degrees?)|pipeline|hidden.?size|learning rate|warm.?up"
    r"|max.?steps)"
    r".{0,160}(?:divisible|multiple of|must|should|cannot|exceed|match|greater|less|smaller|larger|positive|equal|!="
    r"|at least|invalid))"
    r"|(?i:(?:divisible|multiple of|!=|does not match|exceeds).{0,120}(?:batch.?size|world.?size|num_\w+|parallel.?size"
    r"|CLASSES))"
)
CHECKPOINT = (
    r"(?i:(?:checkpoint|state[_ ]?dict|weights|on-disk|restor\w+|pretrained|adapter)\b.{0,200}"
    r"(?:mismatch|missing|(?:do(?:es)?|did) not match|don't match|unexpected key|not found|different|incompatible"
    r"|can't find|cannot find)"
    r"|(?:size|shape) mismatch.{0,80}(?:saved|checkpoint|param)|(?:can't|cannot|couldn't|could not) (?:find"
    r"|load) (?:a valid )?"
    r"(?:checkpoint|tokenizer|model|config\w*|weights)|(?:no|not) .{0,40}(?:checkpoint|weights) (?:found|file))"
)
CONFIG = (
    r"(?i:\b(?:bad|invalid|wrong|missing|malformed|inconsistent|illegal) (?:\w+ )?(?:config\w*"
    r"|arguments\b|argument (?=[`'\"-])|options?|settings?|flags?|hyper-?parameters?)"
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
CONFIG_FILE = (
    r"(?i:[\w.{}-]\.(?:ya?ml|toml|ini|cfg|conf|gin)\b|(?:^|[/'\"\\])\w*(?:config|args|settings|hparams)\w*\.(?:json|py)\b)"
)
CONFIG_SOURCE = r"\bos\.environ|\bgetenv\(|^\s*(?:raise|assert)\b.*\b(?:cfg|conf|config|hparams|settings|FLAGS|args|opts?)(?:\.|\[)"
"""A line of the user's that reads what was given from outside."""
CONFIG_LOOKUP = r"\b(?:cfg|conf|config|configs|hparams|settings|FLAGS|args|opts?)\s*(?:\[|\.)"
NO_SETTING = r"^'(?:Namespace|DictConfig|EasyDict|AttrDict|Munch|ConfigDict|CfgNode|FlagValues|Config)' object has no attribute"
OF_FILES: dict[str, Category | None] = {
    **dict.fromkeys(("FileNotFoundError", "NotADirectoryError", "JSONDecodeError", "UnicodeDecodeError"), "data"),
    **dict.fromkeys(("ParserError", "ScannerError", "FileExistsError"), None),
}
"""Types that speak of files, and the category where no config file is meant."""
