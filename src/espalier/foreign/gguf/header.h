// Reads the header of a GGUF file: key-value pairs and the tensors' names, shapes and types.
#ifndef ESPALIER_FOREIGN_GGUF_HEADER_H_
#define ESPALIER_FOREIGN_GGUF_HEADER_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/error.h"
#include "espalier/foreign/gguf/types.h"
#include "espalier/limits.h"

namespace espalier {

/// The bytes that a GGUF file begins with.
inline constexpr std::string_view kGgufMagic = "GGUF";

/// The types of values. The numbers are those of the files.
enum class GgufType : std::uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};
inline constexpr std::uint32_t kLastGgufType = 12;

/// A piece of the header. Headers are shorter than 4 GiB.
struct GgufPiece {
  std::uint32_t offset = 0;
  std::uint32_t length = 0;
};

/// One key-value pair.
struct GgufPair {
  GgufPiece key;
  GgufType type = GgufType::kU8;
  /// The type of an array's elements, and how many there are. Without meaning for other types.
  GgufType element = GgufType::kU8;
  std::uint32_t count = 0;
  /// The value, or the elements of the array; of a string, its text alone. Strings in an array
  /// stand behind their lengths.
  GgufPiece value;

  /// Whether it is an array whose elements are nodes of the tree. Those of u8 are bytes together.
  bool has_elements() const { return type == GgufType::kArray && element != GgufType::kU8; }
};

/// One tensor.
struct GgufTensor {
  GgufPiece name;
  /// In GgufHeader::dims, with the axis that varies fastest last, as everywhere but in the file.
  std::uint32_t first_dim = 0;
  std::uint32_t rank = 0;
  std::uint32_t type = 0;
  /// From the beginning of the data.
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

/// A header, read on whenever more of it has come. Pieces are those of the bytes that it was given.
class GgufHeader {
 public:
  GgufHeader(std::uint64_t file_size, const Limits& limits);

  /// Reads on in `bytes`, all that has come of the file so far; true when the header is complete,
  /// and false if it is longer. Then it has needed() bytes or more. The errors: kForeignInvalid,
  /// kTruncated, kUnsupportedVersion and kLimitExceeded.
  [[nodiscard]] Result<bool> read_on(ByteSpan bytes);
  std::uint64_t needed() const { return needed_; }

  // What follows is for a complete header.

  std::span<const GgufPair> pairs() const { return pairs_; }
  std::span<const GgufTensor> tensors() const { return tensors_; }
  std::span<const std::uint64_t> shape(const GgufTensor& tensor) const {
    return std::span(dims_).subspan(tensor.first_dim, tensor.rank);
  }
  /// Where the data begins, if there is any.
  std::uint64_t data_begin() const { return data_begin_; }
  /// Where the last tensor ends, with its padding. It may lie beyond the end of the file.
  std::uint64_t data_end() const { return data_begin_ + expected_offset_; }
  /// Bytes of a length or a count: 4 in version 1, 8 since.
  std::uint32_t size_width() const { return version_ == 1 ? 4 : 8; }
  /// Values in arrays, but for those of u8.
  std::uint64_t array_elements() const { return array_elements_; }

 private:
  bool read_start();
  bool read_pair();
  bool read_array(GgufPair& pair);
  bool read_alignment(const GgufPair& pair);
  bool read_tensor();
  bool place(GgufTensor& tensor);
  bool check_data();

  /// Whether the next `length` bytes are there. If not, they are needed, or the file is bad.
  bool has(std::uint64_t length);
  template <class T>
  bool read(T& value);
  bool read_size(std::uint64_t& size);
  bool read_text(GgufPiece& text);
  bool read_name(GgufPiece& name, const char* what);
  bool check_bools(GgufPiece value);
  bool check_count(std::uint64_t count, std::uint64_t least_bytes, const char* what);

  /// Fails, about `path_` if that is set; false.
  bool bad(std::string_view message, ErrorCode code = ErrorCode::kForeignInvalid,
           std::uint64_t offset = Error::kNoOffset);

  const std::uint64_t file_size_;
  const std::uint64_t limit_;
  const Limits limits_;

  ByteSpan bytes_;
  std::uint64_t at_ = 0;  // of what is being read
  std::uint64_t needed_ = 0;
  std::optional<Error> error_;
  // The pair or tensor that is being read, for errors.
  std::optional<GgufPiece> named_;
  bool names_tensor_ = false;

  std::uint32_t version_ = 0;
  std::uint64_t pair_count_ = 0;
  std::uint64_t tensor_count_ = 0;
  std::uint64_t array_elements_ = 0;
  std::uint64_t alignment_ = 32;
  std::uint64_t expected_offset_ = 0;
  std::uint64_t data_begin_ = 0;
  std::vector<GgufPair> pairs_;
  std::vector<GgufTensor> tensors_;
  std::vector<std::uint64_t> dims_;
};

/// Bytes of a value of that type; 0 for strings and arrays.
std::uint32_t gguf_type_width(GgufType type);
/// "u32", "string", ...
std::string_view gguf_type_name(GgufType type);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_GGUF_HEADER_H_
