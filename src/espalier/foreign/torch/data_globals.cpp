#include "espalier/foreign/torch/data_globals.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string_view>

#include "espalier/foreign/pickle/named_code.h"
#include "espalier/foreign/torch/torch_types.h"

namespace espalier {
namespace {

struct Module {
  std::string_view name;
  std::string_view names;  // separated by spaces
};
// The whole list, but for dtypes and the classes of storages and tensors that are named after them.
constexpr Module kData[] = {
    {"builtins",
     "object bool int float complex str bytes bytearray list tuple dict set frozenset slice range "
     "xrange long unicode"},
    {"_codecs", "encode"},
    {"collections", "OrderedDict Counter defaultdict deque"},
    {"copyreg", "_reconstructor"},
    {"pathlib", "Path PosixPath WindowsPath PurePath PurePosixPath PureWindowsPath"},
    {"pathlib._local", "Path PosixPath WindowsPath PurePath PurePosixPath PureWindowsPath"},
    {"numpy",
     "dtype ndarray bool_ bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 "
     "float64 longdouble complex64 complex128 str_ bytes_ datetime64 timedelta64"},
    {"numpy.core.multiarray", "_reconstruct scalar"},
    {"numpy._core.multiarray", "_reconstruct scalar"},
    {"numpy.core.numeric", "_frombuffer"},
    {"numpy._core.numeric", "_frombuffer"},
    {"torch",
     "Size Tensor device per_tensor_affine per_tensor_symmetric per_channel_affine "
     "per_channel_symmetric per_channel_affine_float_qparams"},
    {"torch.nn.parameter", "Parameter Buffer"},
    {"torch.serialization", "_get_layout"},
    {"torch.storage", "UntypedStorage _UntypedStorage TypedStorage _load_from_bytes"},
    {"torch._tensor", "_rebuild_from_type_v2"},
    {"torch._utils",
     "_rebuild_tensor _rebuild_tensor_v2 _rebuild_tensor_v3 _rebuild_meta_tensor_no_storage "
     "_rebuild_parameter _rebuild_parameter_with_state _rebuild_qtensor _rebuild_sparse_tensor"},
    {"torch.jit._pickle",
     "restore_type_tag build_intlist build_doublelist build_boollist build_tensorlist"},
};

// Of the .metadata of a distributed checkpoint. The modules that have them were renamed.
constexpr std::string_view kDistributedModule = "torch.distributed.";
constexpr std::string_view kDistributed =
    "Metadata MetadataIndex StorageMeta TensorStorageMetadata BytesStorageMetadata "
    "ChunkStorageMetadata TensorProperties _MEM_FORMAT_ENCODING _StorageInfo";

bool has_name(std::string_view names, std::string_view name) {
  while (!names.empty()) {
    const std::size_t end = std::min(names.find(' '), names.size());
    if (names.substr(0, end) == name) return true;
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return false;
}

}  // namespace

bool is_data_global(PickleGlobal global) {
  if (global.module == "torch" && find_torch_type(global.name)) return true;
  if (torch_class_dtype(global, "Storage") || torch_class_dtype(global, "Tensor")) return true;
  if (global.module.starts_with(kDistributedModule)) return has_name(kDistributed, global.name);
  const std::string_view module = module_of_global(global);
  const auto* const found =
      std::find_if(std::begin(kData), std::end(kData),
                   [&](const Module& candidate) { return candidate.name == module; });
  return found != std::end(kData) && has_name(found->names, global.name);
}

}  // namespace espalier
