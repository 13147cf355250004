// Makes the file of a deflated entry of a zip archive.
#ifndef ESPALIER_FOREIGN_ZIP_INFLATE_MAKER_H_
#define ESPALIER_FOREIGN_ZIP_INFLATE_MAKER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "espalier/bytes.h"
#include "espalier/format/file_maker.h"

namespace espalier {

/// Inflates the deflate stream at `packed`, as a whole or as a stream. It stops one byte beyond the
/// size of its output, so a stream that grows a thousandfold costs nothing. finish() gives
/// kForeignInvalid if the stream has another size or CRC-32 than the archive says.
class InflateMaker final : public FileMaker {
 public:
  /// `name` is the entry's, for messages. Without a `crc`, none is checked.
  InflateMaker(const Extent& packed, std::optional<std::uint32_t> crc, std::string name)
      : packed_(packed), crc_(crc), name_(std::move(name)) {}

  std::unique_ptr<MakingMachine> start(MutableByteSpan out) const override;
  std::unique_ptr<MakingStream> stream(std::uint64_t length) const override;
  bool has_checksum() const override { return crc_.has_value(); }

 private:
  Extent packed_;
  std::optional<std::uint32_t> crc_;
  std::string name_;
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_ZIP_INFLATE_MAKER_H_
