#include "espalier/foreign/hdf5/values.h"

#include <algorithm>
#include <array>
#include <complex>
#include <cstddef>

#include "espalier/base/checked.h"
#include "espalier/base/utf8.h"
#include "espalier/foreign/hdf5/dataset.h"
#include "espalier/foreign/hdf5/fractal_heap.h"
#include "espalier/foreign/hdf5/trees.h"
#include "espalier/tree/elements.h"

namespace espalier {
namespace {

// Collections are rarely larger.
constexpr std::uint64_t kUsualCollection = 4096;
constexpr std::uint64_t kWorkOfValue = 256;

// What a text of fixed length holds.
ByteSpan without_padding(ByteSpan bytes, Hdf5Type::Padding padding) {
  if (padding == Hdf5Type::Padding::kNulEnded) {
    return bytes.first(std::min(as_text(bytes).find('\0'), bytes.size()));
  }
  const std::byte pad{padding == Hdf5Type::Padding::kNuls ? std::uint8_t{0} : std::uint8_t{' '}};
  while (!bytes.empty() && bytes.back() == pad) bytes = bytes.first(bytes.size() - 1);
  return bytes;
}

class ValueReader {
 public:
  ValueReader(Hdf5Reading& reading, Hdf5GlobalHeap& heap) : reading_(reading), heap_(heap) {}

  // Nested lists along `shape`; each axis once.
  Hdf5Value read(const Hdf5Type& type, std::span<const std::uint64_t> shape, ByteSpan bytes) {
    if (shape.empty()) return read_one(type, bytes);
    Hdf5Value list{.kind = Hdf5Value::Kind::kList};
    const auto count = static_cast<std::size_t>(shape[0]);
    if (count == 0) return list;
    // A value takes more memory than the bytes of the file that it is made of.
    if (count > bytes.size() || !reading_.spend(count * kWorkOfValue)) return list;
    const std::size_t each = bytes.size() / count;
    list.items.reserve(count);
    for (std::size_t i = 0; i < count && reading_.ok(); ++i) {
      list.items.push_back(read(type, shape.subspan(1), bytes.subspan(i * each, each)));
    }
    return list;
  }

 private:
  Hdf5Value read_one(const Hdf5Type& type, ByteSpan bytes) {
    switch (type.type_class) {
      case Hdf5Type::Class::kNumber:
        return read_number(type, bytes);
      case Hdf5Type::Class::kText:
        return text_of(without_padding(bytes, type.padding));
      case Hdf5Type::Class::kBlock: {
        Hdf5Value value = text_of(bytes);
        value.is_bytes = true;
        return value;
      }
      case Hdf5Type::Class::kVariableText:
      case Hdf5Type::Class::kVariable:
        return read_variable(type, bytes);
    }
    return {};
  }

  static Hdf5Value text_of(ByteSpan bytes) {
    return {.kind = Hdf5Value::Kind::kText,
            .text = bytes,
            .is_bytes = find_invalid_utf8(bytes).has_value()};
  }

  Hdf5Value read_variable(const Hdf5Type& type, ByteSpan bytes) {
    Hdf5Cursor cursor(reading_, bytes);
    const std::uint32_t count = cursor.u32();
    const std::uint64_t address = cursor.address();
    const std::uint32_t index = cursor.u32();
    const bool is_text = type.type_class == Hdf5Type::Class::kVariableText;
    const Hdf5Type& element = *type.element;
    const std::uint64_t each =
        is_text ? 1 : element.bytes * shape_elements(element.axes).value_or(0);
    ByteSpan content;
    if (count > 0 && address != 0 && address != kHdf5Undefined && each > 0) {
      content = heap_.get(reading_, address, index);
      if (!reading_.is_complete()) return {};
      if (content.size() / each < count) {
        reading_.bad("an object of the global heap is shorter than its reference says", address);
        return {};
      }
      content = content.first(static_cast<std::size_t>(count * each));
    }
    if (is_text)
      return text_of(content.first(std::min(as_text(content).find('\0'), content.size())));
    std::vector<std::uint64_t> shape{each == 0 ? 0 : content.size() / each};
    shape.insert(shape.end(), element.axes.begin(), element.axes.end());
    return read(element, shape, content);
  }

  static Hdf5Value read_number(const Hdf5Type& type, ByteSpan bytes) {
    std::array<std::byte, 16> copy{};
    const auto size = static_cast<std::size_t>(type.bytes);
    const bool is_complex = type.dtype == DType::kC64 || type.dtype == DType::kC128;
    const std::size_t part = is_complex ? size / 2 : size;
    std::copy_n(bytes.begin(), size, copy.begin());
    if (type.is_swapped) {
      for (std::size_t at = 0; at < size; at += part) {
        std::reverse(copy.begin() + static_cast<std::ptrdiff_t>(at),
                     copy.begin() + static_cast<std::ptrdiff_t>(at + part));
      }
    }
    const ByteSpan packed = std::span<const std::byte>(copy).first(size);
    Hdf5Value value;
    switch (element_type(type.dtype)) {
      case ElementType::kInt64:
        value.kind =
            type.dtype == DType::kBool ? Hdf5Value::Kind::kBool : Hdf5Value::Kind::kInteger;
        decode_elements(type.dtype, packed, 0, std::span(&value.integer, 1));
        break;
      case ElementType::kUint64:
        value.kind = Hdf5Value::Kind::kUnsigned;
        decode_elements(type.dtype, packed, 0, std::span(&value.natural, 1));
        break;
      case ElementType::kFloat64:
        value.kind = Hdf5Value::Kind::kReal;
        decode_elements(type.dtype, packed, 0, std::span(&value.real, 1));
        break;
      case ElementType::kComplex128: {
        std::complex<double> number;
        decode_elements(type.dtype, packed, 0, std::span(&number, 1));
        value.kind = Hdf5Value::Kind::kComplex;
        value.real = number.real();
        value.imaginary = number.imag();
        break;
      }
      case ElementType::kNone:
        break;
    }
    return value;
  }

  Hdf5Reading& reading_;
  Hdf5GlobalHeap& heap_;
};

class AttributeReader {
 public:
  AttributeReader(Hdf5Reading& reading, Hdf5GlobalHeap& heap) : reading_(reading), heap_(heap) {}

  std::vector<Hdf5Attribute> run(const std::vector<Hdf5Message>& messages) {
    for (const Hdf5Message& message : messages) {
      if (message.type == Hdf5MessageType::kAttribute) {
        add(message.body, message.is_shared, message.order);
      } else if (message.type == Hdf5MessageType::kAttributeInfo) {
        read_dense(message);
      }
    }
    if (!reading_.is_complete()) return {};
    std::stable_sort(found_.begin(), found_.end(), [&](const Found& a, const Found& b) {
      return is_tracked_ && a.order != b.order ? a.order < b.order
                                               : a.attribute.name < b.attribute.name;
    });
    std::vector<Hdf5Attribute> attributes;
    attributes.reserve(found_.size());
    for (Found& found : found_) attributes.push_back(std::move(found.attribute));
    return attributes;
  }

 private:
  struct Found {
    Hdf5Attribute attribute;
    std::uint32_t order = 0;
  };

  void read_dense(const Hdf5Message& message) {
    Hdf5Cursor cursor(reading_, message.body, message.address);
    if (cursor.u8() != 0) return cursor.bad("an object has attributes of an unknown version");
    const std::uint8_t flags = cursor.u8();
    is_tracked_ = (flags & 1) != 0;
    if (is_tracked_) cursor.skip(2);
    const std::uint64_t heap_address = cursor.address();
    const std::uint64_t names = cursor.address();
    if (!cursor.ok() || heap_address == kHdf5Undefined || names == kHdf5Undefined) return;
    Hdf5FractalHeap heap(reading_, heap_address);
    read_tree2(reading_, names, 8, [&](ByteSpan record) {
      if (heap.id_bytes() == 0) return;
      const std::size_t id = heap.id_bytes();
      if (record.size() != id + 9) return cursor.bad("an attribute has a wrong record");
      Hdf5Cursor field(reading_, record.subspan(id), names);
      const bool is_shared = (field.u8() & 2) != 0;
      const std::uint32_t order = field.u32();
      add(heap.get(record.first(id)), is_shared, order);
    });
  }

  void add(ByteSpan message, bool is_shared, std::uint32_t order) {
    const ByteSpan body = shared_body(reading_, Hdf5MessageType::kAttribute, is_shared, message);
    if (body.empty()) return;
    Hdf5Cursor cursor(reading_, body);
    const std::uint8_t version = cursor.u8();
    std::uint8_t flags = cursor.u8();
    if (version == 0 || version > 3) return cursor.bad("an attribute has an unknown version");
    if (version == 1) flags = 0;
    const std::uint64_t padding = version == 1 ? 8 : 1;
    const std::uint64_t name_bytes = cursor.u16();
    const std::uint64_t type_bytes = cursor.u16();
    const std::uint64_t space_bytes = cursor.u16();
    if (version == 3) cursor.skip(1);
    const auto next = [&](std::uint64_t bytes) {
      const ByteSpan part = cursor.take(bytes);
      cursor.skip((padding - bytes % padding) % padding);
      return part;
    };
    const std::string_view name = as_text(next(name_bytes));
    const ByteSpan type = next(type_bytes);
    const ByteSpan space = next(space_bytes);
    if (!cursor.ok()) return;
    Found& found = found_.emplace_back();
    found.order = order;
    found.attribute.name = name.substr(0, name.find('\0'));
    // What is wrong with its value is wrong with it alone.
    Hdf5Reading part = reading_.part();
    found.attribute.value = read_value(part, type, space, flags, cursor.rest());
    if (!part.ok()) found.attribute.problem = part.error();
    reading_.lack_what(part);
  }

  Hdf5Value read_value(Hdf5Reading& part, ByteSpan type_body, ByteSpan space_body,
                       std::uint8_t flags, ByteSpan rest) {
    const auto type_bytes =
        shared_body(part, Hdf5MessageType::kDatatype, (flags & 1) != 0, type_body);
    const auto space_bytes =
        shared_body(part, Hdf5MessageType::kDataspace, (flags & 2) != 0, space_body);
    if (!part.is_complete()) return {};
    const Hdf5Type type = read_hdf5_type(part, type_bytes);
    const Hdf5Space space = read_hdf5_space(part, space_bytes);
    if (!part.ok()) return {};
    std::vector<std::uint64_t> shape = space.shape;
    shape.insert(shape.end(), type.axes.begin(), type.axes.end());
    const auto elements = shape_elements(shape);
    const auto bytes = elements ? checked_mul(*elements, type.bytes) : std::nullopt;
    if (shape.size() > kMaxRank) return part.refuse("it has too many axes"), Hdf5Value{};
    if (!space.is_null && (!bytes || *bytes > rest.size())) {
      part.bad("an attribute has fewer bytes than its shape");
      return {};
    }
    // Lists of lists of nothing could be as long as a shape says: the label has that.
    const bool is_nothing = !space.is_null && *elements == 0;
    Hdf5Value value;
    if (is_nothing) {
      value.kind = Hdf5Value::Kind::kList;
    } else if (!space.is_null) {
      value =
          read_hdf5_value(part, heap_, type, shape, rest.first(static_cast<std::size_t>(*bytes)));
    }
    if (space.is_null || (type.type_class != Hdf5Type::Class::kText &&
                          type.type_class != Hdf5Type::Class::kVariableText &&
                          (type.dtype != DType::kBool || !shape.empty()))) {
      value.label = "hdf5." + std::string(space.is_null ? "empty." : shape.empty() ? "" : "array.");
      value.label += type.type_class == Hdf5Type::Class::kNumber
                         ? std::string(dtype_name(type.dtype))
                         : type.name;
    }
    if (is_nothing && shape.size() > 1) {
      for (const std::uint64_t axis : shape) value.label += "." + std::to_string(axis);
    }
    return value;
  }

  Hdf5Reading& reading_;
  Hdf5GlobalHeap& heap_;
  bool is_tracked_ = false;
  std::vector<Found> found_;
};

}  // namespace

const Hdf5GlobalHeap::Objects* Hdf5GlobalHeap::read(Hdf5Reading& reading, std::uint64_t address) {
  if (const auto known = collections_.find(address); known != collections_.end()) {
    return &known->second;
  }
  const std::uint32_t length_bytes = reading.length_bytes();
  const ByteSpan front = reading.at(address, 8u + length_bytes, kUsualCollection);
  if (front.empty()) return nullptr;
  Hdf5Cursor head(reading, front, address);
  if (!head.begins("GCOL", 1)) return nullptr;
  head.skip(3);
  const std::uint64_t bytes = head.length();
  // Both kinds of headers are padded to 8 bytes.
  const std::uint32_t header = 8 + (length_bytes + 7) / 8 * 8;
  if (!head.ok()) return nullptr;
  if (bytes < header) {
    head.bad("a collection of the global heap has no room for its own header");
    return nullptr;
  }
  const ByteSpan all = reading.at(address, bytes);
  if (all.empty()) return nullptr;
  Objects objects;
  Hdf5Cursor cursor(reading, all, address);
  cursor.skip(header);
  while (cursor.left() >= header) {
    const std::uint16_t index = cursor.u16();
    cursor.skip(6);
    const std::uint64_t length = cursor.length();
    cursor.skip(header - 8 - length_bytes);
    if (index == 0 || !cursor.ok()) break;
    objects.push_back({index, cursor.take(length)});
    cursor.skip(std::min<std::uint64_t>((8 - length % 8) % 8, cursor.left()));
  }
  if (!reading.ok()) return nullptr;
  std::sort(objects.begin(), objects.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  for (std::size_t i = 1; i < objects.size(); ++i) {
    if (objects[i].first != objects[i - 1].first) continue;
    reading.bad("a collection of the global heap has two objects with one number", address);
    return nullptr;
  }
  return &(collections_[address] = std::move(objects));
}

ByteSpan Hdf5GlobalHeap::get(Hdf5Reading& reading, std::uint64_t address, std::uint32_t index) {
  const Objects* objects = read(reading, address);
  if (objects == nullptr) return {};
  const auto found = std::lower_bound(
      objects->begin(), objects->end(), index,
      [](const auto& object, std::uint32_t number) { return object.first < number; });
  if (found != objects->end() && found->first == index) return found->second;
  reading.bad("a reference names no object of the global heap", address);
  return {};
}

Hdf5Value read_hdf5_value(Hdf5Reading& reading, Hdf5GlobalHeap& heap, const Hdf5Type& type,
                          std::span<const std::uint64_t> shape, ByteSpan bytes) {
  return ValueReader(reading, heap).read(type, shape, bytes);
}

std::vector<Hdf5Attribute> read_attributes(Hdf5Reading& reading, Hdf5GlobalHeap& heap,
                                           const std::vector<Hdf5Message>& messages) {
  return AttributeReader(reading, heap).run(messages);
}

}  // namespace espalier
