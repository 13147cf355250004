// Goes through the fields of an ONNX model step by step, and over the bytes of its tensors.
#ifndef ESPALIER_FOREIGN_ONNX_PARSER_H_
#define ESPALIER_FOREIGN_ONNX_PARSER_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/error.h"
#include "espalier/foreign/onnx/fields.h"
#include "espalier/foreign/onnx/model.h"
#include "espalier/foreign/onnx/model_builder.h"
#include "espalier/foreign/onnx/model_copy.h"
#include "espalier/limits.h"

namespace espalier {

/// Reads a file that is one ModelProto. It wants one window of the file after another, and goes
/// over what is not read. Errors have an offset: kForeignInvalid, kUnsupportedFeature, kTruncated
/// or kLimitExceeded. Not thread-safe.
class OnnxParser {
 public:
  OnnxParser(std::uint64_t file_size, const Limits& limits);

  /// Goes on with the bytes at position(). True once all is read; otherwise the next window must
  /// begin at position() and have at least needed() bytes.
  [[nodiscard]] Result<bool> parse(ByteSpan window);

  std::uint64_t position() const { return position_; }
  std::uint64_t needed() const { return needed_; }
  /// What has been read. Move it when all is.
  OnnxModel& model() { return builder_.model(); }

 private:
  // A message whose fields are being read.
  struct Level {
    OnnxMessage message;
    std::uint32_t number;  // of the field that it is
    std::uint64_t begin;
    std::uint64_t end;
    std::uint32_t seen = 0;  // its fields of which there may be one
  };

  enum class Read : std::uint8_t { kField, kMore, kBad };

  Read bad(std::string_view message, ErrorCode code = ErrorCode::kForeignInvalid);
  Read read_field(ByteSpan window, std::uint64_t begin);
  Read leave();

  const std::uint64_t limit_;
  OnnxModelBuilder builder_;
  OnnxModelCopy copy_;
  std::vector<Level> levels_;
  std::uint64_t position_ = 0;
  std::uint64_t needed_ = 1;
  std::uint64_t spent_ = 0;  // bytes that were read and not gone over
  std::optional<Error> error_;
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_ONNX_PARSER_H_
