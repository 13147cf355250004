// Parses msgpack step by step, without the bytes of the arrays in it.
#ifndef ESPALIER_FOREIGN_MSGPACK_PARSER_H_
#define ESPALIER_FOREIGN_MSGPACK_PARSER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/error.h"
#include "espalier/foreign/msgpack/tree.h"
#include "espalier/limits.h"

namespace espalier {

/// Parses one msgpack object that fills a file. It wants one window of the file after another; an
/// array that reaches beyond a window is left out of the next one. Errors have offset and path:
/// kForeignInvalid, kTruncated, kTrailingBytes or kLimitExceeded.
class MsgpackParser {
 public:
  MsgpackParser(std::uint64_t file_size, const Limits& limits)
      : file_size_(file_size), limits_(limits) {}

  /// Goes on with the bytes at position(). True once all is parsed; otherwise the next window must
  /// begin at position() and have at least needed() bytes.
  [[nodiscard]] Result<bool> parse(ByteSpan window);

  std::uint64_t position() const { return position_; }
  std::uint64_t needed() const { return needed_; }
  /// What has been parsed. Move it when all is.
  MsgpackTree& tree() { return tree_; }

 private:
  using Type = MsgpackNode::Type;
  class Cursor;
  // A container whose elements are being parsed.
  struct Level {
    std::uint32_t node;
    std::uint32_t left;  // elements, or members, that are not complete
    bool has_key;        // the next object of this map is the value for `key`
    std::uint32_t key;
  };

  tl::unexpected<Error> bad(std::string_view message,
                            ErrorCode code = ErrorCode::kForeignInvalid) const;
  std::string path() const;
  bool wants_key() const;
  [[nodiscard]] Result<void> parse_object(Cursor& cursor);
  [[nodiscard]] Result<void> parse_container(Cursor& cursor, Type type, std::uint64_t size);
  [[nodiscard]] Result<void> parse_text(Cursor& cursor, Type type, std::uint64_t size);
  [[nodiscard]] Result<void> parse_extension(Cursor& cursor, std::uint64_t size);
  [[nodiscard]] Result<void> parse_tensor(Cursor& cursor, Type type, std::uint64_t size);
  [[nodiscard]] Result<void> parse_complex(Cursor& cursor, std::uint64_t size);
  [[nodiscard]] Result<void> add_integer(Cursor& cursor, std::uint64_t value, bool is_signed);
  [[nodiscard]] Result<void> add(const MsgpackNode& node);
  void finish_value();

  const std::uint64_t file_size_;
  const Limits limits_;
  MsgpackTree tree_;
  std::vector<Level> levels_;
  std::uint64_t position_ = 0;
  std::uint64_t needed_ = 1;
  std::uint64_t parsed_bytes_ = 0;  // those of arrays not counted
  std::uint64_t array_bytes_ = 0;   // after the object that was parsed last
  bool is_done_ = false;
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_MSGPACK_PARSER_H_
