#include "espalier/foreign/hdf5/trees.h"

#include <array>
#include <optional>
#include <set>
#include <vector>

namespace espalier {
namespace {

constexpr std::size_t kMostNodes = 4'000'000;
constexpr std::uint32_t kMostDepth = 16;
constexpr std::uint32_t kMostLevel = 31;

// Two nodes that share a child make a tree of 2^n leaves of n nodes.
class Nodes {
 public:
  explicit Nodes(Hdf5Reading& reading) : reading_(reading) {}

  bool enter(std::uint64_t address) {
    if (!reading_.ok()) return false;
    if (seen_.size() < kMostNodes && seen_.insert(address).second) return true;
    reading_.bad("a node of a B-tree is in it twice", address);
    return false;
  }

 private:
  Hdf5Reading& reading_;
  std::set<std::uint64_t> seen_;
};

class Tree1 {
 public:
  Tree1(Hdf5Reading& reading, std::uint8_t kind, std::uint32_t key_bytes,
        FunctionRef<void(ByteSpan, std::uint64_t)> found)
      : reading_(reading), nodes_(reading), kind_(kind), key_bytes_(key_bytes), found_(found) {}

  // It recurses as often as there are levels.
  void read(std::uint64_t address, std::optional<std::uint8_t> level) {
    if (!nodes_.enter(address)) return;
    const std::uint32_t head = 8 + 2 * reading_.address_bytes();
    const ByteSpan front = reading_.at(address, head, 1024);
    if (front.empty()) return;
    Hdf5Cursor cursor(reading_, front, address);
    if (as_text(cursor.take(4)) != "TREE" || cursor.u8() != kind_) {
      return cursor.bad("no B-tree of its kind stands where the file says that one does");
    }
    const std::uint8_t own = cursor.u8();
    const std::uint16_t used = cursor.u16();
    if (level ? own != *level : own > kMostLevel) {
      return cursor.bad("a node of a B-tree has another level than its place in the tree");
    }
    if (used == 0) return;
    const ByteSpan entries =
        reading_.at(address + head, std::uint64_t{used} * (key_bytes_ + reading_.address_bytes()));
    if (entries.empty()) return;
    Hdf5Cursor entry(reading_, entries, address + head);
    for (std::uint32_t i = 0; i < used && reading_.ok(); ++i) {
      const ByteSpan key = entry.take(key_bytes_);
      const std::uint64_t child = entry.address();
      if (own == 0) {
        found_(key, child);
      } else {
        read(child, static_cast<std::uint8_t>(own - 1));
      }
    }
  }

 private:
  Hdf5Reading& reading_;
  Nodes nodes_;
  std::uint8_t kind_;
  std::uint32_t key_bytes_;
  FunctionRef<void(ByteSpan, std::uint64_t)> found_;
};

class Tree2 {
 public:
  Tree2(Hdf5Reading& reading, std::uint8_t type, FunctionRef<void(ByteSpan)> found)
      : reading_(reading), nodes_(reading), type_(type), found_(found) {}

  void run(std::uint64_t header) {
    const ByteSpan bytes =
        reading_.summed_at(header, 22u + reading_.address_bytes() + reading_.length_bytes());
    if (bytes.empty()) return;
    Hdf5Cursor cursor(reading_, bytes, header);
    if (!cursor.begins("BTHD", 0)) return;
    const std::uint8_t type = cursor.u8();
    const std::uint64_t node = cursor.u32();
    record_ = cursor.u16();
    const std::uint16_t depth = cursor.u16();
    cursor.skip(2);
    const std::uint64_t root = cursor.address();
    const std::uint16_t records = cursor.u16();
    total_ = cursor.length();
    if (!cursor.ok()) return;
    if (type != type_ || record_ == 0 || node <= 32 || record_ > node - 10 || depth > kMostDepth) {
      return cursor.bad("the header of a B-tree contradicts itself");
    }
    // The most records of a node, and of it with all below it, decide how wide the counts are.
    most_[0] = (node - 10) / record_;
    count_width_ = hdf5_width(most_[0]);
    std::uint64_t below = most_[0];
    for (std::uint32_t level = 1; level <= depth; ++level) {
      const std::uint64_t pointer = pointer_bytes(level);
      if (node - 10 < pointer + record_ + pointer) {
        return cursor.bad("the nodes of a B-tree are too small");
      }
      most_[level] = (node - 10 - pointer) / (record_ + pointer);
      // Beyond 2^64 records no tree fits a file.
      std::uint64_t product = 0;
      if (__builtin_mul_overflow(most_[level] + 1, below, &product) ||
          __builtin_add_overflow(product, most_[level], &below)) {
        return cursor.bad("a B-tree is too deep for its nodes");
      }
      total_width_[level] = hdf5_width(below);
    }
    if (root != kHdf5Undefined) read(root, depth, records);
    if (reading_.is_complete() && given_ != total_) {
      cursor.bad("a B-tree has another number of records than its header says");
    }
  }

 private:
  std::uint64_t pointer_bytes(std::uint32_t level) const {
    return reading_.address_bytes() + count_width_ + total_width_[level - 1];
  }

  // It recurses as often as there are levels.
  void read(std::uint64_t address, std::uint32_t level, std::uint64_t records) {
    if (!nodes_.enter(address)) return;
    if (records > most_[level]) {
      return reading_.bad("a node of a B-tree has more records than it has room for", address);
    }
    std::uint64_t bytes = 6 + records * record_ + 4;
    if (level > 0) bytes += (records + 1) * pointer_bytes(level);
    const ByteSpan node = reading_.summed_at(address, bytes);
    if (node.empty()) return;
    Hdf5Cursor cursor(reading_, node, address);
    if (!cursor.begins(level > 0 ? "BTIN" : "BTLF", 0)) return;
    if (cursor.u8() != type_) return cursor.bad("a node is of another B-tree");
    Hdf5Cursor pointers = cursor;
    pointers.skip(records * record_);
    for (std::uint64_t i = 0; i <= records && reading_.ok(); ++i) {
      if (level > 0) {
        const std::uint64_t child = pointers.address();
        const std::uint64_t count = pointers.number(count_width_);
        pointers.skip(total_width_[level - 1]);
        read(child, level - 1, count);
      }
      if (i == records) break;
      ++given_;
      found_(cursor.take(record_));
    }
  }

  Hdf5Reading& reading_;
  Nodes nodes_;
  std::uint8_t type_;
  FunctionRef<void(ByteSpan)> found_;
  std::uint64_t record_ = 0;
  std::uint64_t total_ = 0;
  std::uint64_t given_ = 0;
  std::uint32_t count_width_ = 0;
  std::array<std::uint64_t, kMostDepth + 1> most_{};
  std::array<std::uint32_t, kMostDepth + 1> total_width_{};  // of all records below and in a child
};

}  // namespace

void read_tree1(Hdf5Reading& reading, std::uint64_t root, std::uint8_t kind,
                std::uint32_t key_bytes,
                FunctionRef<void(ByteSpan key, std::uint64_t child)> found) {
  Tree1(reading, kind, key_bytes, found).read(root, std::nullopt);
}

void read_tree2(Hdf5Reading& reading, std::uint64_t header, std::uint8_t type,
                FunctionRef<void(ByteSpan record)> found) {
  Tree2(reading, type, found).run(header);
}

}  // namespace espalier
