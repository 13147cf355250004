#include "espalier/foreign/hdf5/links.h"

#include <algorithm>
#include <cstddef>

#include "espalier/base/little_endian.h"
#include "espalier/foreign/hdf5/checksums.h"
#include "espalier/foreign/hdf5/fractal_heap.h"
#include "espalier/foreign/hdf5/trees.h"

namespace espalier {
namespace {

class LinkReader {
 public:
  explicit LinkReader(Hdf5Reading& reading) : reading_(reading) {}

  std::vector<Hdf5Link> run(const std::vector<Hdf5Message>& messages) {
    bool is_tracked = false;
    for (const Hdf5Message& message : messages) {
      if (message.type == Hdf5MessageType::kLink) {
        add_message(message.body);
      } else if (message.type == Hdf5MessageType::kLinkInfo) {
        is_tracked = read_dense(message) || is_tracked;
      } else if (message.type == Hdf5MessageType::kSymbolTable) {
        read_symbols(message);
      }
    }
    if (!reading_.is_complete()) return {};
    const auto by_name = [](const Hdf5Link& a, const Hdf5Link& b) { return a.name < b.name; };
    std::sort(links_.begin(), links_.end(), by_name);
    for (std::size_t i = 0; i < links_.size(); ++i) {
      const std::string_view name = links_[i].name;
      if (name.empty() || name.find('/') != name.npos) {
        reading_.bad("the name of a link is empty or has a slash");
      } else if (i > 0 && name == links_[i - 1].name) {
        reading_.bad("a group has two links with the same name");
      }
    }
    if (is_tracked) {
      std::stable_sort(links_.begin(), links_.end(),
                       [](const Hdf5Link& a, const Hdf5Link& b) { return a.order < b.order; });
    }
    return std::move(links_);
  }

 private:
  void add_message(ByteSpan body) {
    if (body.empty()) return;
    Hdf5Cursor cursor(reading_, body);
    if (cursor.u8() != 1) return cursor.bad("a link has an unknown version");
    const std::uint8_t flags = cursor.u8();
    const std::uint8_t type = (flags & 8) != 0 ? cursor.u8() : 0;
    Hdf5Link link;
    if ((flags & 4) != 0) link.order = cursor.number(8);
    if ((flags & 16) != 0) cursor.skip(1);
    link.name = as_text(cursor.take(cursor.number(1u << (flags & 3))));
    if (type == 0) {
      link.address = cursor.address();
    } else if (type == 1) {
      link.kind = Hdf5Link::Kind::kSoft;
      link.target = as_text(cursor.take(cursor.u16()));
    } else {
      link.kind = type == 64 ? Hdf5Link::Kind::kExternal : Hdf5Link::Kind::kUser;
    }
    if (cursor.ok()) links_.push_back(link);
  }

  // Whether the group tracks the order of its links.
  bool read_dense(const Hdf5Message& message) {
    Hdf5Cursor cursor(reading_, message.body, message.address);
    if (cursor.u8() != 0) {
      cursor.bad("a group has an unknown version");
      return false;
    }
    const std::uint8_t flags = cursor.u8();
    if ((flags & 1) != 0) cursor.skip(8);
    const std::uint64_t heap_address = cursor.address();
    const std::uint64_t names = cursor.address();
    if (!cursor.ok() || heap_address == kHdf5Undefined || names == kHdf5Undefined) {
      return (flags & 1) != 0;
    }
    Hdf5FractalHeap heap(reading_, heap_address);
    read_tree2(reading_, names, 5, [&](ByteSpan record) {
      if (heap.id_bytes() == 0) return;
      if (record.size() != 4 + heap.id_bytes()) return cursor.bad("a link has a wrong record");
      const std::size_t before = links_.size();
      add_message(heap.get(record.subspan(4)));
      if (links_.size() > before &&
          lookup3(as_bytes(links_.back().name)) != load_le<std::uint32_t>(record.data())) {
        cursor.bad("a link has another name than its record says");
      }
    });
    return (flags & 1) != 0;
  }

  void read_symbols(const Hdf5Message& message) {
    Hdf5Cursor cursor(reading_, message.body, message.address);
    const std::uint64_t tree = cursor.address();
    const std::uint64_t heap = cursor.address();
    if (!cursor.ok()) return;
    const std::string_view names = read_local_heap(heap);
    read_tree1(reading_, tree, 0, reading_.length_bytes(),
               [&](ByteSpan, std::uint64_t node) { read_symbol_node(node, names); });
  }

  // The list of free space in it is not read: it could lead in circles.
  std::string_view read_local_heap(std::uint64_t address) {
    const ByteSpan head =
        reading_.at(address, 8u + 2u * reading_.length_bytes() + reading_.address_bytes(), 512);
    if (head.empty()) return {};
    Hdf5Cursor cursor(reading_, head, address);
    if (!cursor.begins("HEAP", 0)) return {};
    cursor.skip(3);
    const std::uint64_t bytes = cursor.length();
    cursor.length();
    const std::uint64_t data = cursor.address();
    if (!cursor.ok() || bytes == 0) return {};
    return as_text(reading_.at(data, bytes));
  }

  void read_symbol_node(std::uint64_t address, std::string_view names) {
    const ByteSpan head = reading_.at(address, 8, 512);
    if (head.empty()) return;
    Hdf5Cursor front(reading_, head, address);
    if (!front.begins("SNOD", 1)) return;
    front.skip(1);
    const std::uint16_t count = front.u16();
    const std::uint32_t entry_bytes = 24u + reading_.length_bytes() + reading_.address_bytes();
    if (count == 0) return;
    const ByteSpan entries = reading_.at(address + 8, std::uint64_t{count} * entry_bytes);
    if (entries.empty() || names.empty()) return;
    Hdf5Cursor cursor(reading_, entries, address + 8);
    for (std::uint32_t i = 0; i < count && reading_.ok(); ++i) {
      Hdf5Link link;
      link.name = name_at(names, cursor.length(), address);
      link.address = cursor.address();
      const std::uint32_t kind = cursor.u32();
      cursor.skip(4);
      const std::uint64_t target = cursor.u32();
      cursor.skip(12);
      if (kind == 2) {
        link.kind = Hdf5Link::Kind::kSoft;
        link.target = name_at(names, target, address);
      }
      links_.push_back(link);
    }
  }

  std::string_view name_at(std::string_view names, std::uint64_t offset, std::uint64_t address) {
    if (offset < names.size()) {
      const std::string_view rest = names.substr(static_cast<std::size_t>(offset));
      if (const std::size_t end = rest.find('\0'); end != rest.npos) return rest.substr(0, end);
    }
    reading_.bad("the name of a link lies beyond the heap of its group", address);
    return {};
  }

  Hdf5Reading& reading_;
  std::vector<Hdf5Link> links_;
};

}  // namespace

std::vector<Hdf5Link> read_links(Hdf5Reading& reading, const std::vector<Hdf5Message>& messages) {
  return LinkReader(reading).run(messages);
}

}  // namespace espalier
