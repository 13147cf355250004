// Numbers of 2 and 4 bits, of which TensorFlow stores each in a byte.
#ifndef ESPALIER_FOREIGN_TENSORFLOW_NARROW_MAKER_H_
#define ESPALIER_FOREIGN_TENSORFLOW_NARROW_MAKER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "espalier/bytes.h"
#include "espalier/format/file_maker.h"

namespace espalier {

/// Packs the bytes at `from` as our tensors have them, or, where they fill no whole bytes, gives
/// each number a byte: with its sign, if it has one. kForeignInvalid if the upper bits of a byte
/// are neither zero nor the sign, which TensorFlow ignores and which would be lost, or if the bytes
/// do not match their CRC-32C.
class NarrowMaker final : public FileMaker {
 public:
  /// `bits` are 2 or 4. `name` is for messages.
  NarrowMaker(const Extent& from, std::uint32_t bits, bool is_signed, bool is_packed,
              std::uint32_t crc, std::string name)
      : from_(from),
        bits_(bits),
        is_signed_(is_signed),
        is_packed_(is_packed),
        crc_(crc),
        name_(std::move(name)) {}

  std::unique_ptr<MakingMachine> start(MutableByteSpan out) const override;
  std::unique_ptr<MakingStream> stream(std::uint64_t length) const override;
  bool has_checksum() const override { return true; }

 private:
  class Stream;

  Extent from_;
  std::uint32_t bits_;
  bool is_signed_;
  bool is_packed_;
  std::uint32_t crc_;
  std::string name_;
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_TENSORFLOW_NARROW_MAKER_H_
