// Reads structures of an HDF5 file: the address of each is known, and its bytes may not be there
// yet.
#ifndef ESPALIER_FOREIGN_HDF5_READING_H_
#define ESPALIER_FOREIGN_HDF5_READING_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/error.h"
#include "espalier/foreign/hdf5/pieces.h"

namespace espalier {

/// The address of what is not there.
inline constexpr std::uint64_t kHdf5Undefined = ~std::uint64_t{0};

/// What all addresses of a file have in common.
struct Hdf5Layout {
  /// Bytes of an address and of a length: 4 or 8.
  std::uint8_t address_bytes = 8;
  std::uint8_t length_bytes = 8;
  /// Where address 0 is in the file, and how many bytes have addresses.
  std::uint64_t base = 0;
  std::uint64_t end = 0;
};

/// Bytes that hold every number up to `most`.
constexpr std::uint32_t hdf5_width(std::uint64_t most) {
  std::uint32_t bytes = 1;
  while ((most >>= 8) != 0) ++bytes;
  return bytes;
}

/// One try to read something. It ends well, or lacks bytes, which it then wants (try again when
/// they are there), or has an error. Readers stop early at an error; where they lack bytes, they go
/// on with what does not depend on these, so that all of it is wanted at once.
class Hdf5Reading {
 public:
  Hdf5Reading(Hdf5Pieces& pieces, const Hdf5Layout& layout, std::uint64_t& work)
      : pieces_(pieces), layout_(layout), work_(work) {}

  const Hdf5Layout& layout() const { return layout_; }
  std::uint8_t address_bytes() const { return layout_.address_bytes; }
  std::uint8_t length_bytes() const { return layout_.length_bytes; }

  /// No error so far.
  bool ok() const { return !error_; }
  bool is_complete() const { return ok() && !lacks_; }
  const std::optional<Error>& error() const { return error_; }

  /// Another try, at a part whose error is its own; lack_what() then tells what it lacks.
  Hdf5Reading part() const { return {pieces_, layout_, work_}; }
  void lack_what(const Hdf5Reading& part) { lacks_ = lacks_ || part.lacks_; }

  /// Notes an error, the first one: a broken rule, or a legal thing that is not read.
  void bad(std::string_view message, std::uint64_t address = kHdf5Undefined);
  void refuse(std::string_view message);
  void fail(const Error& error) {
    if (!error_) error_ = error;
  }

  /// Takes from the work that may be done for the file; kLimitExceeded if there is no more.
  bool spend(std::uint64_t work, std::uint64_t address = kHdf5Undefined);

  /// `count` bytes at `address`, at least one; none if it lacks them or they lie beyond the file.
  /// `ahead` is how many probably are needed.
  ByteSpan at(std::uint64_t address, std::uint64_t count, std::uint64_t ahead = 0);
  /// The same without an error if they reach beyond the file: as many as there are.
  ByteSpan most_at(std::uint64_t address, std::uint64_t count);
  /// `count` bytes that end with their checksum; returns those before it.
  ByteSpan summed_at(std::uint64_t address, std::uint64_t count);

 private:
  Hdf5Pieces& pieces_;
  const Hdf5Layout& layout_;
  std::uint64_t& work_;
  bool lacks_ = false;
  std::optional<Error> error_;
};

/// Takes fields from the front of a structure. After an error all fields are 0.
class Hdf5Cursor {
 public:
  /// `bytes` stand at `address`.
  Hdf5Cursor(Hdf5Reading& reading, ByteSpan bytes, std::uint64_t address = kHdf5Undefined)
      : reading_(&reading), bytes_(bytes), address_(address) {}

  Hdf5Reading& reading() { return *reading_; }
  bool ok() const { return reading_->ok(); }
  std::size_t left() const { return bytes_.size() - at_; }
  std::size_t place() const { return at_; }
  ByteSpan rest() const { return bytes_.subspan(at_); }

  ByteSpan take(std::uint64_t count);
  void skip(std::uint64_t count) { take(count); }
  /// A number of `width` bytes, at most 8.
  std::uint64_t number(std::uint32_t width);
  std::uint8_t u8() { return static_cast<std::uint8_t>(number(1)); }
  std::uint16_t u16() { return static_cast<std::uint16_t>(number(2)); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(number(4)); }
  /// An address: kHdf5Undefined if all its bits are set.
  std::uint64_t address();
  std::uint64_t length() { return number(reading_->length_bytes()); }
  /// Text up to a NUL, which with it takes a multiple of `padding` bytes.
  std::string_view name(std::size_t padding = 1);
  /// The four letters of a structure, and its version.
  bool begins(std::string_view letters, std::uint8_t version);
  void bad(std::string_view message) { reading_->bad(message, address_); }

 private:
  Hdf5Reading* reading_;
  ByteSpan bytes_;
  std::uint64_t address_;
  std::size_t at_ = 0;
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_HDF5_READING_H_
