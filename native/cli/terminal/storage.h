// Where and how tensors are stored.
#ifndef ESPALIER_CLI_TERMINAL_STORAGE_H_
#define ESPALIER_CLI_TERMINAL_STORAGE_H_

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "cli/terminal/json_writer.h"
#include "espalier/checkpoint.h"

namespace espalier::cli {

/// The storage columns of `ls --long` for one checkpoint. Some take time per chunk, so they are
/// computed once per tensor, not once per node.
class Storage {
 public:
  explicit Storage(const Checkpoint& checkpoint) : facts_(checkpoint.tensor_count()) {}

  /// Offset of the first byte, stored bytes, number of chunks, codecs and content hash; `-` if the
  /// tensor has none. Codecs are `raw`, `zstd`, `planes`, or several of them joined by '+', or
  /// `made` for what is put together from the chunks of another format: it lies nowhere as it is.
  std::array<std::string, 5> cells(const TensorRef& tensor);
  /// The members `offset`, `stored`, `chunks`, `codec`, `hash`.
  void write_members(JsonWriter& json, const TensorRef& tensor);

 private:
  struct Facts {
    std::string codecs;  // empty until computed
    std::uint64_t stored = 0;
    std::optional<Hash128> hash;
  };
  const Facts& facts(const TensorRef& tensor);

  std::vector<Facts> facts_;  // by tensor
};

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_TERMINAL_STORAGE_H_
