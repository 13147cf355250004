// A copy of an ONNX model without the numbers of its tensors.
#ifndef ESPALIER_FOREIGN_ONNX_MODEL_COPY_H_
#define ESPALIER_FOREIGN_ONNX_MODEL_COPY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "espalier/bytes.h"

namespace espalier {

/// Puts a ModelProto together again from the fields that it is told, with the lengths of the
/// messages that lack some. It has the graph, so that programs of ONNX can run the model once they
/// have put the tensors back. Gives up at kMostBytes. Not thread-safe.
class OnnxModelCopy {
 public:
  /// Real graphs take a tenth of it. Each byte is moved once for each message that it is in.
  static constexpr std::uint64_t kMostBytes = std::uint64_t{16} << 20;

  bool is_kept() const { return is_kept_; }
  /// Whether so many more bytes fit.
  bool has_room(std::uint64_t bytes) const { return is_kept_ && bytes <= kMostBytes - size_; }
  void give_up();

  /// A message begins, as the field with that number, and ends.
  void enter(std::uint32_t number);
  void leave();
  /// All bytes of a field.
  void add(ByteSpan field);

  /// The whole, after the last field. Empty if it was given up.
  std::string take();

 private:
  struct Message {
    std::uint32_t number = 0;
    std::string fields = {};
  };

  bool is_kept_ = true;
  std::uint64_t size_ = 0;
  std::vector<Message> messages_ = {Message()};
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_ONNX_MODEL_COPY_H_
