// Which file of a model has which tensors, and the index that says so.
//
// The index is the one of Hugging Face: JSON whose `weight_map` names the file of each tensor, and
// whose `metadata` have `total_size` in bytes and `total_parameters`.
#ifndef ESPALIER_FILES_SAVE_SHARD_SPLIT_H_
#define ESPALIER_FILES_SAVE_SHARD_SPLIT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/error.h"
#include "espalier/limits.h"
#include "espalier/value.h"

namespace espalier {

/// The names of a model's files.
struct ModelNames {
  /// If one is enough: "model.safetensors".
  std::string single;
  /// "model.safetensors.index.json".
  std::string index;
};

/// The names for either of the two, which may have the variant of an index: that of
/// "model.safetensors.index.fp16.json" is "model.fp16.safetensors". kInvalidArgument for others.
[[nodiscard]] Result<ModelNames> model_names(const std::string& name);

/// A tensor, as far as it matters here.
struct ShardTensor {
  std::string_view name;
  std::uint64_t bytes = 0;
  std::uint64_t elements = 0;
  /// The same for tensors that are tied, which lie in one file.
  const void* tie = nullptr;
};

struct ShardSplit {
  struct File {
    std::string name;
    /// Numbers of tensors.
    std::vector<std::size_t> tensors;
  };
  std::vector<File> files;
  /// The text of the index; empty for one file, which needs none.
  std::string index;
};

/// Fills one file after the other up to `max_bytes` of tensors, in their order; a larger tensor has
/// a file of its own. The files are those of split_torch_state_dict_into_shards() of
/// huggingface_hub 1.x, `model-00001-of-00003.safetensors`.
/// `metadata` are further members of those of the index.
ShardSplit split_by_size(std::span<const ShardTensor> tensors, std::uint64_t max_bytes,
                         const ModelNames& names, const Value& metadata = Value::dict());

/// Puts each tensor into the file that `index_text` has for its name, and a new one into the file
/// of the name that has most of its first segments. kForeignInvalid if it is no index, or names a
/// file that does not end in .safetensors; kInvalidArgument if it has none of these names.
[[nodiscard]] Result<ShardSplit> split_like(std::span<const ShardTensor> tensors,
                                            std::string_view index_text, const Limits& limits,
                                            const Value& metadata = Value::dict());

/// The files that an index names, each once; none if it is no index.
std::vector<std::string> files_of_index(std::string_view index_text, const Limits& limits);

/// The same index with other names of files, of those that `renamed` has.
[[nodiscard]] Result<std::string> rename_in_index(
    std::string_view index_text, const std::map<std::string, std::string, std::less<>>& renamed,
    const Limits& limits);

}  // namespace espalier

#endif  // ESPALIER_FILES_SAVE_SHARD_SPLIT_H_
