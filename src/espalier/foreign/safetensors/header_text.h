// The JSON of a header, as the reference library writes it.
#ifndef ESPALIER_FOREIGN_SAFETENSORS_HEADER_TEXT_H_
#define ESPALIER_FOREIGN_SAFETENSORS_HEADER_TEXT_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "espalier/bytes.h"
#include "espalier/detail/catalog.h"
#include "espalier/dtype.h"

namespace espalier {

/// The name under which a header has the pairs of its metadata.
inline constexpr char kSafetensorsMetadataName[] = "__metadata__";

/// Writes a header piece by piece, each at the end of a text of the caller's: first the metadata,
/// if there are any, then the tensors in the order of their bytes, then the end.
class HeaderText {
 public:
  void begin_metadata(std::string& out);
  void add_pair(std::string& out, std::string_view key, std::string_view value);
  void end_metadata(std::string& out);
  /// The next tensor; its bytes are [begin, end) of the buffer after the header.
  void add_tensor(std::string& out, std::string_view name, DType dtype,
                  std::span<const std::uint64_t> shape, std::uint64_t begin, std::uint64_t end);
  /// `length` bytes were written before. Pads the header, so that the buffer starts aligned for the
  /// widest dtype.
  void end(std::string& out, std::uint64_t length);

 private:
  void begin_member(std::string& out);

  bool is_empty_ = true;
  bool has_pairs_ = false;
};

/// Whether `header`, the JSON of the file that `catalog` is of, is the text that plan_safetensors()
/// would write for its tensors and metadata. Takes memory for a number of each tensor alone. False
/// for a nested catalog, which has not the names of the file.
bool is_usual_header(std::string_view header, const Catalog& catalog);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_SAFETENSORS_HEADER_TEXT_H_
