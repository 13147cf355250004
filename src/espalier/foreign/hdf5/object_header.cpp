#include "espalier/foreign/hdf5/object_header.h"

#include <algorithm>
#include <string>

namespace espalier {
namespace {

constexpr std::size_t kMostMessages = 65'536;
constexpr std::size_t kMostContinuations = 4096;
// What the header of an array has room for, as h5py and Keras write it.
constexpr std::uint64_t kUsualObjectHeaderBytes = 320;

struct Block {
  ByteSpan bytes;
  std::uint64_t address = 0;
};

class HeaderReader {
 public:
  explicit HeaderReader(Hdf5Reading& reading) : reading_(reading) {}

  std::vector<Hdf5Message> run(std::uint64_t address) {
    const ByteSpan begin = reading_.at(address, 16, kUsualObjectHeaderBytes);
    if (begin.empty()) return {};
    if (as_text(begin).starts_with("OHDR")) {
      begin_second(address);
    } else if (begin[0] == std::byte{1}) {
      Hdf5Cursor cursor(reading_, begin, address);
      cursor.skip(8);
      const std::uint32_t bytes = cursor.u32();
      if (bytes > 0) add_block(reading_.at(address + 16, bytes), address + 16);
    } else {
      reading_.bad("no object header stands where the file says that one does", address);
    }
    for (std::size_t i = 0; i < blocks_.size() && reading_.ok(); ++i) read_block(blocks_[i]);
    return std::move(messages_);
  }

 private:
  void begin_second(std::uint64_t address) {
    is_second_ = true;
    Hdf5Cursor cursor(reading_, reading_.most_at(address, 64), address);
    if (cursor.left() == 0 || !cursor.begins("OHDR", 2)) return;
    const std::uint8_t flags = cursor.u8();
    has_order_ = (flags & 4) != 0;
    if ((flags & 0x20) != 0) cursor.skip(16);
    if ((flags & 0x10) != 0) cursor.skip(4);
    const std::uint64_t bytes = cursor.number(1u << (flags & 3));
    const std::size_t begin = cursor.place();
    // An address has 63 bits, as at() refuses others, but this number has 64.
    if (!cursor.ok() || bytes > reading_.layout().end) {
      return cursor.bad("an object header is larger than the file");
    }
    const ByteSpan all = reading_.summed_at(address, begin + bytes + 4);
    if (!all.empty()) add_block(all.subspan(begin), address + begin);
  }

  void add_block(ByteSpan bytes, std::uint64_t address) { blocks_.push_back({bytes, address}); }

  void read_block(Block block) {
    const std::size_t head = !is_second_ ? 8 : has_order_ ? 6 : 4;
    Hdf5Cursor cursor(reading_, block.bytes, block.address);
    while (cursor.ok() && cursor.left() >= head) {
      const std::uint64_t type = cursor.number(is_second_ ? 1 : 2);
      const std::uint16_t bytes = cursor.u16();
      const std::uint8_t flags = cursor.u8();
      if (!is_second_) cursor.skip(3);
      const std::uint16_t order = is_second_ && has_order_ ? cursor.u16() : std::uint16_t{0};
      const std::uint64_t address = block.address + cursor.place();
      const ByteSpan body = cursor.take(bytes);
      if (!cursor.ok()) return;
      if (type == static_cast<std::uint8_t>(Hdf5MessageType::kContinuation)) {
        go_on(body, address);
      } else if (type == static_cast<std::uint8_t>(Hdf5MessageType::kCacheImage) ||
                 (type > static_cast<std::uint8_t>(Hdf5MessageType::kCacheImage) &&
                  (flags & 0x80) != 0)) {
        reading_.refuse("an object has a message of type " + std::to_string(type) +
                        ", which readers must not pass over and which is not known here");
      } else if (type != 0 && type < static_cast<std::uint8_t>(Hdf5MessageType::kCacheImage)) {
        if (messages_.size() == kMostMessages) return cursor.bad("an object has too many messages");
        messages_.push_back(
            {static_cast<Hdf5MessageType>(type), (flags & 2) != 0, body, address, order});
      }
    }
  }

  void go_on(ByteSpan body, std::uint64_t at) {
    Hdf5Cursor cursor(reading_, body, at);
    const std::uint64_t address = cursor.address();
    const std::uint64_t bytes = cursor.length();
    if (!cursor.ok()) return;
    // A block that continues in itself, or in one before it, would go on without end.
    if (std::find(continued_.begin(), continued_.end(), address) != continued_.end() ||
        continued_.size() == kMostContinuations) {
      return cursor.bad("the parts of an object header refer to each other without end");
    }
    continued_.push_back(address);
    if (!is_second_) {
      if (bytes > 0) add_block(reading_.at(address, bytes), address);
      return;
    }
    if (bytes < 8) return cursor.bad("a part of an object header is too short");
    const ByteSpan part = reading_.summed_at(address, bytes);
    if (part.empty()) return;
    if (!as_text(part).starts_with("OCHK")) {
      return reading_.bad("no part of an object header stands where the file says that one does",
                          address);
    }
    add_block(part.subspan(4), address + 4);
  }

  Hdf5Reading& reading_;
  bool is_second_ = false;
  bool has_order_ = false;
  std::vector<Block> blocks_;
  std::vector<std::uint64_t> continued_;
  std::vector<Hdf5Message> messages_;
};

}  // namespace

std::vector<Hdf5Message> read_object_header(Hdf5Reading& reading, std::uint64_t address) {
  return HeaderReader(reading).run(address);
}

const Hdf5Message* find_message(const std::vector<Hdf5Message>& messages, Hdf5MessageType type) {
  for (const Hdf5Message& message : messages) {
    if (message.type == type) return &message;
  }
  return nullptr;
}

ByteSpan shared_body(Hdf5Reading& reading, Hdf5MessageType type, bool is_shared, ByteSpan body) {
  if (!is_shared) return body;
  Hdf5Cursor cursor(reading, body);
  const std::uint8_t version = cursor.u8();
  const std::uint8_t kind = cursor.u8();
  if (version == 0 || version > 3) cursor.bad("a message of an object is shared in an unknown way");
  if (version == 3 && kind == 1) {
    reading.refuse(
        "a message of an object stands in the heap of shared messages, which is not "
        "read; write the file again with h5repack");
  }
  if (version == 1) cursor.skip(6);
  const std::uint64_t address = cursor.address();
  if (!cursor.ok()) return {};
  // Only one step: one that is shared in turn could lead in a circle.
  for (const Hdf5Message& message : read_object_header(reading, address)) {
    if (message.type == type && !message.is_shared) return message.body;
  }
  if (reading.is_complete()) {
    reading.bad("an object refers to a message that another one has not", address);
  }
  return {};
}

}  // namespace espalier
