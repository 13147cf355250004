#include "espalier/foreign/hdf5/reading.h"

#include <algorithm>
#include <string>

#include "espalier/base/checked.h"
#include "espalier/base/little_endian.h"
#include "espalier/foreign/hdf5/checksums.h"

namespace espalier {
namespace {

// Beside the bytes of a structure, so that a million empty ones are work, too.
constexpr std::uint64_t kWorkOfLookup = 64;

}  // namespace

void Hdf5Reading::bad(std::string_view message, std::uint64_t address) {
  if (error_) return;
  // What a hostile file says may lie anywhere, and the end is the last place of it.
  error_ = Error{
      ErrorCode::kForeignInvalid,
      address == kHdf5Undefined ? Error::kNoOffset : layout_.base + std::min(address, layout_.end),
      {},
      message};
}

void Hdf5Reading::refuse(std::string_view message) {
  if (!error_) error_ = Error{ErrorCode::kUnsupportedFeature, Error::kNoOffset, {}, message};
}

bool Hdf5Reading::spend(std::uint64_t work, std::uint64_t address) {
  if (!ok()) return false;
  if (work <= work_) {
    work_ -= work;
    return true;
  }
  error_ = Error{ErrorCode::kLimitExceeded,
                 address == kHdf5Undefined ? Error::kNoOffset : layout_.base + address,
                 {},
                 "the structures of the HDF5 file refer to each other so often, or its attributes "
                 "have so many elements, that reading them takes too long; write the file again, "
                 "for example with h5repack"};
  return false;
}

ByteSpan Hdf5Reading::at(std::uint64_t address, std::uint64_t count, std::uint64_t ahead) {
  if (!ok()) return {};
  if (address == kHdf5Undefined || count == 0 || !range_fits(address, count, layout_.end)) {
    bad("a structure lies beyond the end of the file; copy or download it again", address);
    return {};
  }
  if (!spend(count + kWorkOfLookup, address)) return {};
  const std::byte* bytes =
      pieces_.find(layout_.base + address, count, std::min(ahead, layout_.end - address));
  if (bytes == nullptr) {
    lacks_ = true;
    return {};
  }
  return {bytes, static_cast<std::size_t>(count)};
}

ByteSpan Hdf5Reading::most_at(std::uint64_t address, std::uint64_t count) {
  const bool is_in = address < layout_.end;
  return at(address, is_in ? std::min(count, layout_.end - address) : count);
}

ByteSpan Hdf5Reading::summed_at(std::uint64_t address, std::uint64_t count) {
  const ByteSpan bytes = at(address, count);
  if (bytes.empty()) return {};
  const ByteSpan summed = bytes.first(bytes.size() - 4);
  if (lookup3(summed) == load_le<std::uint32_t>(bytes.data() + summed.size())) return summed;
  bad("a structure does not match its checksum; copy or download the file again", address);
  return {};
}

ByteSpan Hdf5Cursor::take(std::uint64_t count) {
  if (!ok()) return {};
  if (count > left()) {
    bad("a structure ends within a field");
    return {};
  }
  const ByteSpan taken = bytes_.subspan(at_, static_cast<std::size_t>(count));
  at_ += taken.size();
  return taken;
}

std::uint64_t Hdf5Cursor::number(std::uint32_t width) {
  std::uint64_t value = 0;
  std::uint32_t shift = 0;
  for (const std::byte byte : take(width)) {
    value |= std::to_integer<std::uint64_t>(byte) << shift;
    shift += 8;
  }
  return value;
}

std::uint64_t Hdf5Cursor::address() {
  const std::uint32_t width = reading_->address_bytes();
  const std::uint64_t value = number(width);
  return value == ~std::uint64_t{0} >> (64 - 8 * width) ? kHdf5Undefined : value;
}

std::string_view Hdf5Cursor::name(std::size_t padding) {
  const std::string_view text = as_text(rest());
  const std::size_t end = text.find('\0');
  if (end == text.npos) {
    bad("a name does not end");
    return {};
  }
  take((end / padding + 1) * padding);
  return ok() ? text.substr(0, end) : std::string_view();
}

bool Hdf5Cursor::begins(std::string_view letters, std::uint8_t version) {
  const ByteSpan magic = take(letters.size());
  if (!ok()) return false;
  if (as_text(magic) != letters) {
    bad("no " + std::string(letters) + " stands where the file says that one does");
    return false;
  }
  const std::uint8_t found = u8();
  if (ok() && found != version) {
    reading_->refuse("the file has a " + std::string(letters) + " of version " +
                     std::to_string(found) + ", which is not known");
  }
  return ok();
}

}  // namespace espalier
