#include "espalier/foreign/hdf5/datatype.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <string_view>

#include "espalier/base/checked.h"

namespace espalier {
namespace {

constexpr std::uint32_t kMostNested = 16;
constexpr std::uint64_t kMostElementBytes = std::uint64_t{1} << 20;
constexpr std::uint32_t kMostAxes = 32;
// Of names of compound types, which are shown with each array.
constexpr std::size_t kMostNameBytes = 4096;

// Exponent and mantissa: first bit and width of both, and the bias.
struct FloatForm {
  std::uint8_t bytes;
  std::uint8_t sign;
  std::uint8_t exponent_at;
  std::uint8_t exponent_bits;
  std::uint8_t mantissa_at;
  std::uint8_t mantissa_bits;
  std::uint32_t bias;

  friend bool operator==(const FloatForm&, const FloatForm&) = default;
};
struct KnownFloat {
  FloatForm form;
  DType dtype;
};
constexpr KnownFloat kFloats[] = {
    {{2, 15, 10, 5, 0, 10, 15}, DType::kF16},    {{4, 31, 23, 8, 0, 23, 127}, DType::kF32},
    {{8, 63, 52, 11, 0, 52, 1023}, DType::kF64}, {{2, 15, 7, 8, 0, 7, 127}, DType::kBF16},
    {{1, 7, 2, 5, 0, 2, 15}, DType::kF8E5M2},
};

char letter_of(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return 'b';
    case DType::kC64:
    case DType::kC128:
      return 'c';
    default:
      return dtype >= DType::kF16 ? 'f' : dtype_name(dtype)[0];
  }
}

std::string number_name(const Hdf5Type& type) {
  if (type.dtype == DType::kBF16 || type.dtype == DType::kF8E5M2) {
    return std::string(dtype_name(type.dtype));
  }
  const char order = type.bytes == 1 ? '|' : type.is_swapped ? '>' : '<';
  return std::string{order, letter_of(type.dtype)} + std::to_string(type.bytes);
}

void set_number(Hdf5Type& type, DType dtype, bool is_big) {
  type.type_class = Hdf5Type::Class::kNumber;
  type.dtype = dtype;
  type.is_swapped = is_big && type.bytes > 1;
  type.name = number_name(type);
}

void set_complex(Hdf5Type& type, const Hdf5Type& part) {
  set_number(type, part.bytes == 4 ? DType::kC64 : DType::kC128, part.is_swapped);
}

bool is_float(const Hdf5Type& type) {
  return type.axes.empty() && (type.dtype == DType::kF32 || type.dtype == DType::kF64);
}

class TypeReader {
 public:
  explicit TypeReader(Hdf5Cursor& cursor) : cursor_(cursor), reading_(cursor.reading()) {}

  Hdf5Type read(std::uint32_t depth) {
    Hdf5Type type;
    if (depth > kMostNested) {
      reading_.bad("a type is nested too deep");
      return type;
    }
    const std::uint8_t first = cursor_.u8();
    const auto bits = static_cast<std::uint32_t>(cursor_.number(3));
    const std::uint32_t version = first >> 4;
    type.bytes = cursor_.u32();
    if (!cursor_.ok()) return type;
    if (version == 0 || version > 5 || type.bytes == 0 || type.bytes > kMostElementBytes) {
      reading_.bad("a type has an unknown version or no size that elements can have");
      return type;
    }
    switch (first & 15) {
      case 0:
      case 4:
        read_integer(type, bits, (first & 15) == 0 && (bits & 8) != 0);
        break;
      case 1:
        read_float(type, bits);
        break;
      case 3:
        type.type_class = Hdf5Type::Class::kText;
        type.padding = static_cast<Hdf5Type::Padding>(std::min(bits & 15, 2u));
        type.is_utf8 = (bits >> 4 & 15) == 1;
        type.name = "|S" + std::to_string(type.bytes);
        break;
      case 5: {
        type.type_class = Hdf5Type::Class::kBlock;
        const std::string_view tag = as_text(cursor_.take(bits & 0xFF));
        type.tag = tag.substr(0, tag.find('\0'));
        type.name = "|V" + std::to_string(type.bytes);
        break;
      }
      case 6:
        read_compound(type, bits & 0xFFFF, version, depth);
        break;
      case 8:
        read_enumeration(type, bits & 0xFFFF, version, depth);
        break;
      case 9:
        type.element = std::make_shared<const Hdf5Type>(read(depth + 1));
        type.type_class =
            (bits & 15) == 1 ? Hdf5Type::Class::kVariableText : Hdf5Type::Class::kVariable;
        type.is_utf8 = (bits >> 8 & 15) == 1;
        type.name = (bits & 15) == 1 ? "text" : "variable length of " + type.element->name;
        if (type.bytes != 8u + reading_.address_bytes()) {
          reading_.bad("a type of variable length has another size than its references");
        }
        if ((bits & 15) != 1 && type.element->is_variable()) {
          reading_.refuse("its type nests elements of variable length, which is not read");
        }
        break;
      case 10:
        read_array(type, version, depth);
        break;
      case 11: {
        const Hdf5Type part = read(depth + 1);
        if (!reading_.ok()) break;
        if (!is_float(part) || part.bytes * 2 != type.bytes) {
          reading_.refuse("it has complex numbers of " + part.name + ", which have no dtype");
        } else {
          set_complex(type, part);
        }
        break;
      }
      case 2:
        reading_.refuse("it has elements of the type time, which is not read");
        break;
      case 7:
        reading_.refuse("it has references to other objects, which are not read");
        break;
      default:
        reading_.refuse("it has a type of the unknown class " + std::to_string(first & 15));
    }
    return type;
  }

 private:
  void read_integer(Hdf5Type& type, std::uint32_t bits, bool is_signed) {
    const std::uint16_t offset = cursor_.u16();
    const std::uint16_t precision = cursor_.u16();
    if (!cursor_.ok()) return;
    const std::uint64_t width = type.bytes;
    if (offset != 0 || (width != 1 && width != 2 && width != 4 && width != 8) ||
        precision != width * 8) {
      return reading_.refuse("it has integers of " + std::to_string(precision) + " bits in " +
                             std::to_string(width) + " bytes, which have no dtype");
    }
    constexpr std::array<DType, 4> kUnsigned = {DType::kU8, DType::kU16, DType::kU32, DType::kU64};
    constexpr std::array<DType, 4> kSigned = {DType::kI8, DType::kI16, DType::kI32, DType::kI64};
    const auto power = static_cast<std::size_t>(std::countr_zero(width));
    set_number(type, (is_signed ? kSigned : kUnsigned)[power], (bits & 1) != 0);
  }

  void read_float(Hdf5Type& type, std::uint32_t bits) {
    const std::uint16_t offset = cursor_.u16();
    const std::uint16_t precision = cursor_.u16();
    FloatForm form{};
    form.bytes = static_cast<std::uint8_t>(std::min<std::uint64_t>(type.bytes, 255));
    form.sign = static_cast<std::uint8_t>(bits >> 8);
    form.exponent_at = cursor_.u8();
    form.exponent_bits = cursor_.u8();
    form.mantissa_at = cursor_.u8();
    form.mantissa_bits = cursor_.u8();
    form.bias = cursor_.u32();
    if (!cursor_.ok()) return;
    if ((bits & 0x40) != 0) return reading_.refuse("it has numbers of a VAX, which are not read");
    for (const KnownFloat& known : kFloats) {
      // An implied first bit of the mantissa.
      if (known.form == form && offset == 0 && precision == 8 * type.bytes &&
          (bits >> 4 & 3) == 2) {
        return set_number(type, known.dtype, (bits & 1) != 0);
      }
    }
    reading_.refuse("it has floating-point numbers of " + std::to_string(type.bytes) +
                    " bytes with " + std::to_string(form.exponent_bits) +
                    " bits of exponent, which have no dtype");
  }

  void read_compound(Hdf5Type& type, std::uint32_t count, std::uint32_t version,
                     std::uint32_t depth) {
    struct Range {
      std::uint64_t begin;
      std::uint64_t end;
    };
    std::vector<Range> ranges;
    std::vector<Hdf5Type> members;
    std::string description = "[";
    bool is_complex = count == 2;
    for (std::uint32_t i = 0; i < count && cursor_.ok(); ++i) {
      const std::string_view name = cursor_.name(version < 3 ? 8 : 1);
      const std::uint64_t offset = cursor_.number(version < 3 ? 4 : hdf5_width(type.bytes));
      std::vector<std::uint64_t> axes;
      if (version == 1) {
        const std::uint8_t rank = cursor_.u8();
        cursor_.skip(11);
        for (std::uint32_t axis = 0; axis < 4; ++axis) {
          const std::uint32_t size = cursor_.u32();
          if (axis < rank) axes.push_back(size);
        }
      }
      Hdf5Type member = read(depth + 1);
      if (!cursor_.ok()) return;
      if (member.is_variable()) {
        return reading_.refuse("it has elements with parts of variable length, which are not read");
      }
      member.axes.insert(member.axes.begin(), axes.begin(), axes.end());
      const auto elements = shape_elements(member.axes);
      const auto bytes = elements ? checked_mul(*elements, member.bytes) : std::nullopt;
      if (!bytes || !range_fits(offset, *bytes, type.bytes)) {
        return reading_.bad("a member of a compound type lies beyond its elements");
      }
      ranges.push_back({offset, offset + *bytes});
      if (description.size() < kMostNameBytes) {
        description += std::string(i == 0 ? "" : ", ") + "('" + std::string(name) + "', '" +
                       member.name + "', " + std::to_string(offset);
        for (const std::uint64_t axis : member.axes) description += ", " + std::to_string(axis);
        description += ')';
      }
      is_complex = is_complex && name == (i == 0 ? "r" : "i") && is_float(member) &&
                   offset == i * member.bytes && 2 * member.bytes == type.bytes;
      if (is_complex) members.push_back(std::move(member));
    }
    if (!cursor_.ok()) return;
    std::sort(ranges.begin(), ranges.end(),
              [](const Range& a, const Range& b) { return a.begin < b.begin; });
    for (std::size_t i = 1; i < ranges.size(); ++i) {
      if (ranges[i].begin < ranges[i - 1].end) {
        return reading_.bad("two members of a compound type overlap");
      }
    }
    if (is_complex && members[0].name == members[1].name) return set_complex(type, members[0]);
    type.type_class = Hdf5Type::Class::kBlock;
    if (description.size() > kMostNameBytes) description.resize(kMostNameBytes);
    type.name = description + "]";
  }

  void read_enumeration(Hdf5Type& type, std::uint32_t count, std::uint32_t version,
                        std::uint32_t depth) {
    const Hdf5Type base = read(depth + 1);
    if (!cursor_.ok()) return;
    if (base.type_class != Hdf5Type::Class::kNumber || base.bytes != type.bytes ||
        !base.axes.empty() || base.dtype > DType::kU64) {
      return reading_.bad("an enumeration has values that are no integers");
    }
    std::vector<std::string_view> names;
    for (std::uint32_t i = 0; i < count && cursor_.ok(); ++i) {
      names.push_back(cursor_.name(version < 3 ? 8 : 1));
    }
    const ByteSpan values = cursor_.take(std::uint64_t{count} * base.bytes);
    const auto width = static_cast<std::size_t>(base.bytes);
    if (!cursor_.ok()) return;
    type = base;
    const bool is_bool = base.bytes == 1 && count == 2 && names[0] == "FALSE" &&
                         names[1] == "TRUE" && values[0] == std::byte{0} &&
                         values[1] == std::byte{1};
    if (is_bool) return set_number(type, DType::kBool, false);
    for (std::uint32_t i = 0; i < count && type.values.size() < kMostNameBytes; ++i) {
      std::uint64_t value = 0;
      for (std::size_t k = 0; k < width; ++k) {
        const std::size_t place = base.is_swapped ? k : width - 1 - k;
        value = value << 8 | std::to_integer<std::uint64_t>(values[i * width + place]);
      }
      const auto unused = static_cast<int>(64 - 8 * base.bytes);
      const bool is_signed = dtype_name(base.dtype)[0] == 'i';
      type.values +=
          (i == 0 ? "" : ", ") + std::string(names[i]) + "=" +
          (is_signed ? std::to_string(static_cast<std::int64_t>(value << unused) >> unused)
                     : std::to_string(value));
    }
  }

  void read_array(Hdf5Type& type, std::uint32_t version, std::uint32_t depth) {
    const std::uint8_t rank = cursor_.u8();
    if (rank == 0 || rank > kMostAxes) return reading_.bad("an array type has no rank that it can");
    if (version < 3) cursor_.skip(3);
    std::vector<std::uint64_t> axes;
    for (std::uint32_t i = 0; i < rank; ++i) axes.push_back(cursor_.u32());
    if (version < 3) cursor_.skip(4u * rank);
    Hdf5Type base = read(depth + 1);
    if (!cursor_.ok()) return;
    if (base.is_variable()) {
      return reading_.refuse("it has arrays of elements of variable length, which are not read");
    }
    const std::uint64_t whole = type.bytes;
    axes.insert(axes.end(), base.axes.begin(), base.axes.end());
    type = std::move(base);
    type.axes = std::move(axes);
    const auto elements = shape_elements(type.axes);
    const auto bytes = elements ? checked_mul(*elements, type.bytes) : std::nullopt;
    if (bytes != whole) reading_.bad("an array type has another size than its elements together");
  }

  Hdf5Cursor& cursor_;
  Hdf5Reading& reading_;
};

}  // namespace

Hdf5Type read_hdf5_type(Hdf5Reading& reading, ByteSpan bytes) {
  Hdf5Cursor cursor(reading, bytes);
  return TypeReader(cursor).read(0);
}

}  // namespace espalier
