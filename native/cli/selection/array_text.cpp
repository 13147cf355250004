#include "cli/selection/array_text.h"

#include <algorithm>
#include <complex>
#include <cstddef>
#include <string>
#include <vector>

#include "cli/terminal/values.h"
#include "espalier/dtype.h"
#include "espalier/read/slice.h"
#include "espalier/tree/elements.h"

namespace espalier::cli {
namespace {

constexpr std::uint64_t kEdge = 3;
constexpr std::size_t kLineWidth = 80;
// With many axes, a summary can be longer than the array itself.
constexpr std::uint64_t kMaxSummary = 8 * kMaxElements;

// The shown part of one axis: the whole selection, or its first and last few indices.
struct ShownAxis {
  AxisRange selected;
  bool cut = false;

  std::uint64_t shown() const { return cut ? 2 * kEdge : selected.count; }
};

struct Shown {
  std::vector<ShownAxis> axes;
  std::uint64_t total = 0;  // elements that the slice selects
  bool is_cut = false;

  std::uint64_t elements() const {
    std::vector<std::uint64_t> shape;
    for (const ShownAxis& axis : axes) shape.push_back(axis.shown());
    return shape_elements(shape).value_or(~std::uint64_t{0});
  }
};

Result<Shown> choose_shown(const TensorRef& tensor, const SliceSpec& spec, bool full) {
  auto slices = spec.fit(tensor.shape());
  if (!slices) return propagate(slices);
  Shown shown;
  std::vector<std::uint64_t> counts;
  for (std::size_t i = 0; i < tensor.shape().size(); ++i) {
    const Slice slice = i < slices->size() ? (*slices)[i] : Slice{};
    shown.axes.push_back({resolve(slice, tensor.shape()[i])});
    counts.push_back(shown.axes.back().selected.count);
  }
  shown.total = shape_elements(counts).value_or(~std::uint64_t{0});
  shown.is_cut = !full && shown.total > kMaxElements;
  for (ShownAxis& axis : shown.axes) {
    axis.cut = shown.is_cut && axis.selected.count > 2 * kEdge;
  }
  return shown;
}

// `count` indices of a selection, from number `first` on.
Slice part_of(const AxisRange& range, std::uint64_t first, std::uint64_t count) {
  const auto begin = static_cast<std::int64_t>(range.begin + first * range.step);
  const auto step = static_cast<std::int64_t>(range.step);
  if (count == 0) return {0, 0};
  return {begin, begin + static_cast<std::int64_t>(count - 1) * step + 1, step};
}

// Reads the shown elements into `grid`, in C order. Every cut axis has two parts, and each
// combination of parts is a box to read.
template <class T>
class GridReader {
 public:
  GridReader(const CheckpointFile& file, const TensorRef& tensor, const Shown& shown)
      : file_(file),
        tensor_(tensor),
        shown_(shown),
        grid_(static_cast<std::size_t>(shown.elements())) {}

  Result<std::vector<T>> read() {
    if (!grid_.empty()) {
      if (auto ok = read_boxes(0, 0); !ok) return propagate(ok);
    }
    return std::move(grid_);
  }

 private:
  // Chooses the parts of axis `axis` and of the axes after it; `place` is the position in the grid
  // so far.
  Result<void> read_boxes(std::size_t axis, std::size_t place) {
    if (axis == shown_.axes.size()) return read_box(place);
    const ShownAxis& shown = shown_.axes[axis];
    const std::uint64_t count = shown.selected.count;
    const auto choose = [&](std::uint64_t first, std::uint64_t length, std::uint64_t at) {
      slices_.push_back(part_of(shown.selected, first, length));
      lengths_.push_back(static_cast<std::size_t>(length));
      auto ok = read_boxes(
          axis + 1, place * static_cast<std::size_t>(shown.shown()) + static_cast<std::size_t>(at));
      slices_.pop_back();
      lengths_.pop_back();
      return ok;
    };
    if (!shown.cut) return choose(0, count, 0);
    if (auto ok = choose(0, kEdge, 0); !ok) return ok;
    return choose(count - kEdge, kEdge, kEdge);
  }

  Result<void> read_box(std::size_t place) {
    auto box = file_.slice(tensor_, slices_);
    if (!box) return propagate(box);
    std::size_t count = 1;
    for (const std::size_t length : lengths_) count *= length;
    std::vector<T> elements(count);
    const auto bytes = box->bytes();
    decode_elements<T>(tensor_.dtype(), bytes, 0, elements);
    copy(0, place, elements.data());
    return {};
  }

  // Copies the box's elements to the grid, where its rows are further apart. `place` counts in
  // units of the axes before `axis`. Returns the next element of the box.
  const T* copy(std::size_t axis, std::size_t place, const T* from) {
    if (axis == lengths_.size()) {
      grid_[place] = *from;
      return from + 1;
    }
    const std::size_t stride = stride_after(axis);
    for (std::size_t i = 0; i < lengths_[axis]; ++i)
      from = copy(axis + 1, place + i * stride, from);
    return from;
  }

  std::size_t stride_after(std::size_t axis) const {
    std::size_t stride = 1;
    for (std::size_t i = axis + 1; i < shown_.axes.size(); ++i) {
      stride *= static_cast<std::size_t>(shown_.axes[i].shown());
    }
    return stride;
  }

  const CheckpointFile& file_;
  const TensorRef& tensor_;
  const Shown& shown_;
  std::vector<T> grid_;
  std::vector<Slice> slices_;
  std::vector<std::size_t> lengths_;
};

template <class T>
Result<std::vector<T>> read_grid(const CheckpointFile& file, const TensorRef& tensor,
                                 const Shown& shown) {
  return GridReader<T>(file, tensor, shown).read();
}

// Returns `use(grid)` for the elements in their C++ type; the dtype must have one.
template <class Done, class Use>
Result<Done> with_grid(const CheckpointFile& file, const TensorRef& tensor, const Shown& shown,
                       Use use) {
  const auto run = [&](auto type) -> Result<Done> {
    auto grid = read_grid<decltype(type)>(file, tensor, shown);
    if (!grid) return propagate(grid);
    return Done(use(std::move(*grid)));
  };
  switch (element_type(tensor.dtype())) {
    case ElementType::kInt64:
      return run(std::int64_t{});
    case ElementType::kUint64:
      return run(std::uint64_t{});
    case ElementType::kFloat64:
      return run(double{});
    case ElementType::kComplex128:
      return run(std::complex<double>{});
    case ElementType::kNone:
      break;
  }
  return Done();
}

template <class T>
class ArrayPrinter {
 public:
  ArrayPrinter(Output& out, DType dtype, const Shown& shown, const std::vector<T>& grid)
      : out_(out), dtype_(dtype), shown_(shown), grid_(grid) {
    // Aligning costs a second pass, so only short arrays are aligned.
    if (grid.size() > kMaxSummary) return;
    for (std::size_t i = 0; i < grid.size(); ++i) width_ = std::max(width_, text(i).size());
  }

  void print() {
    print_axis(0);
    out_.put('\n');
  }

 private:
  const std::string& text(std::size_t i) {
    text_.clear();
    append_element(text_, dtype_, grid_[i]);
    return text_;
  }

  void print_axis(std::size_t axis) {
    if (axis == shown_.axes.size()) return print_element();
    const ShownAxis& shown = shown_.axes[axis];
    const bool innermost = axis + 1 == shown_.axes.size();
    out_.put('[');
    column_ = axis + 1;
    for (std::uint64_t i = 0; i < shown.shown(); ++i) {
      if (i > 0) separate(axis, innermost);
      if (shown.cut && i == kEdge) {
        out_.write("...");
        column_ += 3;
        separate(axis, innermost);
      }
      print_axis(axis + 1);
    }
    out_.put(']');
  }

  void separate(std::size_t axis, bool innermost) {
    out_.put(',');
    if (!innermost) {
      // One line more for each axis that ends.
      const std::size_t lines = shown_.axes.size() - axis - 1;
      out_.write(std::string(std::min<std::size_t>(lines, 2), '\n') + std::string(axis + 1, ' '));
    } else if (column_ + width_ + 2 > kLineWidth) {
      out_.put('\n');
      out_.write(std::string(axis + 1, ' '));
      column_ = axis + 1;
    } else {
      out_.put(' ');
      column_ += 2;
    }
  }

  void print_element() {
    const std::string& element = text(next_++);
    const std::size_t size = std::max(width_, element.size());
    out_.write(std::string(size - element.size(), ' '));
    out_.write(element);
    column_ += size;
  }

  Output& out_;
  DType dtype_;
  const Shown& shown_;
  const std::vector<T>& grid_;
  std::string text_;
  std::size_t width_ = 0;
  std::size_t column_ = 0;
  std::size_t next_ = 0;
};

template <class T>
void write_axis(JsonWriter& json, DType dtype, const Shown& shown, const std::vector<T>& grid,
                std::size_t axis, std::size_t& next) {
  if (axis == shown.axes.size()) return write_element(json, dtype, grid[next++]);
  json.begin_array();
  for (std::uint64_t i = 0; i < shown.axes[axis].shown(); ++i) {
    write_axis(json, dtype, shown, grid, axis + 1, next);
  }
  json.end_array();
}

ArrayText line(std::string_view text) {
  return [text](Output& out) {
    out.write(text);
    out.put('\n');
  };
}

}  // namespace

Result<ArrayText> read_array_text(const CheckpointFile& file, const TensorRef& tensor,
                                  const SliceSpec& slice, bool full) {
  auto shown = choose_shown(tensor, slice, full);
  if (!shown) return propagate(shown);
  if (tensor.is_placeholder()) return line("(a placeholder: the file does not hold its data)");
  if (element_type(tensor.dtype()) == ElementType::kNone) {
    return line("(opaque blocks: their encoding is unknown)");
  }
  if (shown->is_cut && shown->elements() > kMaxSummary) {
    return line("(too many axes for a summary; --slice shows a part, --full shows everything)");
  }
  if (shown->total == 0) return line("[]");
  return with_grid<ArrayText>(file, tensor, *shown, [&](auto grid) {
    return [dtype = tensor.dtype(), shown = *shown, grid = std::move(grid)](Output& out) {
      ArrayPrinter(out, dtype, shown, grid).print();
    };
  });
}

Result<ArrayJson> read_array_json(const CheckpointFile& file, const TensorRef& tensor,
                                  const SliceSpec& slice, bool full) {
  auto shown = choose_shown(tensor, slice, full);
  if (!shown) return propagate(shown);
  if (tensor.is_placeholder() || element_type(tensor.dtype()) == ElementType::kNone ||
      shown->is_cut) {
    return [](JsonWriter& json) { json.null(); };
  }
  if (shown->total == 0) {
    return [](JsonWriter& json) {
      json.begin_array();
      json.end_array();
    };
  }
  return with_grid<ArrayJson>(file, tensor, *shown, [&](auto grid) {
    return [dtype = tensor.dtype(), shown = *shown, grid = std::move(grid)](JsonWriter& json) {
      std::size_t next = 0;
      write_axis(json, dtype, shown, grid, 0, next);
    };
  });
}

}  // namespace espalier::cli
