#include "espalier/format/index_layout.h"

#include <algorithm>

#include "espalier/base/little_endian.h"

namespace espalier {
namespace {

constexpr std::array<std::byte, 4> kIdentifier = {std::byte{'E'}, std::byte{'S'}, std::byte{'P'},
                                                  std::byte{'L'}};
constexpr std::uint64_t kFrontBytes = 8;  // the position of the root table, and the file identifier
constexpr std::uint64_t kLengthBytes = 4;
constexpr std::uint64_t kReferenceBytes = 4;

constexpr std::uint64_t table_bytes(VectorSizes sizes) {
  return 4 + sizes.size() * kReferenceBytes;
}
constexpr std::uint64_t vtable_bytes(VectorSizes sizes) { return 4 + sizes.size() * 2; }

constexpr std::uint64_t align(std::uint64_t value, std::uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

// A FlatBuffer grows from its end to its start, so offsets are first distances from the end.
struct Layout {
  std::array<std::uint64_t, kMaxIndexVectors> vectors;  // offset of each vector's length
  std::uint64_t table;
  std::uint64_t size;

  explicit Layout(VectorSizes sizes) {
    std::uint64_t distance = 0;
    std::uint64_t widest = 4;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      // The elements of an empty vector need no alignment.
      const std::uint64_t alignment =
          sizes[i].elements > 0 ? std::max<std::uint64_t>(sizes[i].alignment, 4) : 4;
      widest = std::max(widest, alignment);
      distance = align(distance + sizes[i].bytes(), alignment) + kLengthBytes;
      vectors[i] = distance;
    }
    table = distance + table_bytes(sizes);
    size = align(table + vtable_bytes(sizes) + kFrontBytes, widest);
    for (std::size_t i = 0; i < sizes.size(); ++i) vectors[i] = size - vectors[i];
    table = size - table;
  }
};

// Calls `visit` with the offset and the value of every number that is neither an element nor
// padding.
template <class Visit>
void visit_frame(const Layout& layout, VectorSizes sizes, const Visit& visit) {
  const std::uint64_t vtable = layout.table - vtable_bytes(sizes);
  visit(0, static_cast<std::uint32_t>(layout.table));
  visit(vtable, static_cast<std::uint16_t>(vtable_bytes(sizes)));
  visit(vtable + 2, static_cast<std::uint16_t>(table_bytes(sizes)));
  visit(layout.table, static_cast<std::uint32_t>(vtable_bytes(sizes)));
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    // The first field comes last in the table.
    const std::uint64_t field = table_bytes(sizes) - (i + 1) * kReferenceBytes;
    const std::uint64_t reference = layout.table + field;
    visit(vtable + 4 + 2 * i, static_cast<std::uint16_t>(field));
    visit(reference, static_cast<std::uint32_t>(layout.vectors[i] - reference));
    visit(layout.vectors[i], static_cast<std::uint32_t>(sizes[i].elements));
  }
}

// Calls `visit` with the begin and the end of every range of padding.
template <class Visit>
void visit_padding(const Layout& layout, VectorSizes sizes, const Visit& visit) {
  visit(kFrontBytes, layout.table - vtable_bytes(sizes));
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    visit(layout.vectors[i] + kLengthBytes + sizes[i].bytes(),
          i == 0 ? layout.size : layout.vectors[i - 1]);
  }
}

}  // namespace

std::uint64_t index_bytes(VectorSizes sizes) { return Layout(sizes).size; }

void write_index_frame(VectorSizes sizes, MutableByteSpan index) {
  const Layout layout(sizes);
  visit_frame(layout, sizes,
              [&](std::uint64_t at, auto value) { store_le(index.data() + at, value); });
  visit_padding(layout, sizes, [&](std::uint64_t begin, std::uint64_t end) {
    std::fill_n(index.data() + begin, end - begin, std::byte{0});
  });
  std::copy(kIdentifier.begin(), kIdentifier.end(), index.begin() + 4);
}

std::optional<std::uint64_t> find_misplaced(ByteSpan index, VectorSizes sizes) {
  const Layout layout(sizes);
  if (layout.size != index.size()) return std::min<std::uint64_t>(layout.size, index.size());
  std::optional<std::uint64_t> misplaced;
  const auto expect = [&]<class T>(std::uint64_t at, T value) {
    if (!misplaced && load_le<T>(index.data() + at) != value) misplaced = at;
  };
  visit_frame(layout, sizes, expect);
  // Unchecked padding could hide data.
  visit_padding(layout, sizes, [&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t at = begin; at < end; ++at) expect(at, std::uint8_t{0});
  });
  return misplaced;
}

}  // namespace espalier
