#include "espalier/map/axes.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <system_error>
#include <utility>

#include "espalier/base/ascii.h"
#include "espalier/base/checked.h"
#include "espalier/base/counted.h"
#include "espalier/map/map_error.h"

namespace espalier {
namespace {

constexpr std::size_t kMaxAxesDepth = 8;
constexpr std::size_t kMaxTerms = 64;

class AxesParser {
 public:
  explicit AxesParser(std::string_view text) : text_(text) {}

  Result<Axes> parse() {
    auto axes = parse_axes(0);
    if (axes && at_ < text_.size())
      return invalid_map(std::string("an unexpected '") + text_[at_] + "'");
    return axes;
  }

 private:
  void skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char c) {
    skip_spaces();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool is_at_end() {
    skip_spaces();
    return at_ == text_.size() || text_[at_] == ')';
  }

  // Recurses as deep as parentheses stand in each other.
  Result<Axes> parse_axes(std::size_t depth) {
    Axes axes;
    while (!is_at_end()) {
      Axis axis;
      do {
        auto term = parse_term(depth);
        if (!term) return propagate(term);
        axis.terms.push_back(std::move(*term));
        if (++terms_ > kMaxTerms) return invalid_map("more parts than 64");
      } while (take('+'));
      axes.push_back(std::move(axis));
    }
    return axes;
  }

  Result<AxisTerm> parse_term(std::size_t depth) {
    AxisTerm term;
    skip_spaces();
    if (take('(')) {
      if (depth == kMaxAxesDepth) return invalid_map("parentheses are nested more than 8 deep");
      auto product = parse_axes(depth + 1);
      if (!product) return propagate(product);
      if (!take(')')) return invalid_map("a ')' is missing");
      if (product->empty()) return invalid_map("'()' has no parts; write 1");
      term.kind = AxisTerm::Kind::kProduct;
      term.product = std::move(*product);
      return term;
    }
    if (text_.substr(at_).starts_with("...")) {
      if (depth > 0) return invalid_map("'...' stands in parentheses");
      at_ += 3;
      term.kind = AxisTerm::Kind::kRest;
      return term;
    }
    term.is_reversed = take('-');
    const std::size_t begin = at_;
    if (at_ < text_.size() && is_digit(text_[at_]) && !term.is_reversed) {
      while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
      term.kind = AxisTerm::Kind::kNumber;
      const auto parsed = std::from_chars(text_.data() + begin, text_.data() + at_, term.number);
      if (parsed.ec != std::errc() || term.number == 0) {
        return invalid_map("'" + std::string(text_.substr(begin, at_ - begin)) + "' is no size");
      }
      return term;
    }
    if (at_ == text_.size() || !is_letter(text_[at_])) {
      return invalid_map(at_ == text_.size() ? "a part is missing at the end"
                                             : std::string("an unexpected '") + text_[at_] + "'");
    }
    while (at_ < text_.size() && (is_letter(text_[at_]) || is_digit(text_[at_]))) ++at_;
    term.word = text_.substr(begin, at_ - begin);
    return term;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t terms_ = 0;
};

void print(const AxisTerm& term, std::string& text);

void print(const Axes& axes, std::string& text) {
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (i > 0) text += ' ';
    for (std::size_t k = 0; k < axes[i].terms.size(); ++k) {
      if (k > 0) text += '+';
      print(axes[i].terms[k], text);
    }
  }
}

void print(const AxisTerm& term, std::string& text) {
  if (term.is_reversed) text += '-';
  switch (term.kind) {
    case AxisTerm::Kind::kWord:
      text += term.word;
      break;
    case AxisTerm::Kind::kNumber:
      text += std::to_string(term.number);
      break;
    case AxisTerm::Kind::kRest:
      text += "...";
      break;
    case AxisTerm::Kind::kProduct:
      text += '(';
      print(term.product, text);
      text += ')';
      break;
  }
}

template <class Visit>
void for_each_word(const Axes& axes, const Visit& visit) {
  for (const Axis& axis : axes) {
    for (const AxisTerm& term : axis.terms) {
      if (term.kind == AxisTerm::Kind::kWord) visit(term.word);
      for_each_word(term.product, visit);
    }
  }
}

bool is_rest(const Axis& axis) {
  return axis.terms.size() == 1 && axis.terms.front().kind == AxisTerm::Kind::kRest;
}

// The size of one axis as a function of one word that is not known: constant + factor * word.
struct Linear {
  std::uint64_t constant = 0;
  std::uint64_t factor = 0;
};

// The sizes of axes, with at most one unknown word in them. Nothing if they do not fit 64 bits.
class Measure {
 public:
  explicit Measure(const Sizes& sizes) : sizes_(sizes) {}

  std::optional<Linear> of(const Axis& axis) {
    Linear sum;
    for (const AxisTerm& term : axis.terms) {
      const auto size = of(term);
      if (!size) return std::nullopt;
      const auto constant = checked_add(sum.constant, size->constant);
      const auto factor = checked_add(sum.factor, size->factor);
      if (!constant || !factor) return std::nullopt;
      sum = {*constant, *factor};
    }
    return sum;
  }

  const std::string& unknown() const { return unknown_; }
  bool has_several() const { return has_several_; }

 private:
  std::optional<Linear> of(const AxisTerm& term) {
    switch (term.kind) {
      case AxisTerm::Kind::kNumber:
        return Linear{term.number, 0};
      case AxisTerm::Kind::kWord: {
        if (const auto known = sizes_.find(term.word); known != sizes_.end()) {
          return Linear{known->second, 0};
        }
        has_several_ = has_several_ || (!unknown_.empty() && unknown_ != term.word);
        unknown_ = term.word;
        return Linear{0, 1};
      }
      case AxisTerm::Kind::kRest:
        return std::nullopt;
      case AxisTerm::Kind::kProduct:
        break;
    }
    Linear product{1, 0};
    for (const Axis& part : term.product) {
      const auto size = of(part);
      if (!size) return std::nullopt;
      // No word stands twice in a product, so one of the two has none.
      if (product.factor != 0 && size->factor != 0) {
        has_several_ = true;
        return Linear{0, 1};
      }
      const auto constant = checked_mul(product.constant, size->constant);
      const auto left = checked_mul(product.factor, size->constant);
      const auto right = checked_mul(product.constant, size->factor);
      if (!constant || !left || !right) return std::nullopt;
      product = {*constant, *left + *right};
    }
    return product;
  }

  const Sizes& sizes_;
  std::string unknown_;
  bool has_several_ = false;
};

tl::unexpected<Error> bad_shape(std::string_view message) {
  return fail(ErrorCode::kMapShape, message);
}

// What makes an axis of this size impossible.
tl::unexpected<Error> misfit(std::size_t number, const Axis& axis, std::uint64_t size,
                             const Linear& linear, const std::string& unknown) {
  const std::string text = to_string(Axes{axis});
  std::string message = "axis " + std::to_string(number) + " is " + std::to_string(size);
  if (linear.factor == 0) {
    return bad_shape(message + ", and " + text + " is " + std::to_string(linear.constant));
  }
  if (size < linear.constant) {
    return bad_shape(message + ", less than the " + std::to_string(linear.constant) + " of " +
                     text + " without " + unknown);
  }
  if (linear.constant > 0) message += ", less " + std::to_string(linear.constant);
  return bad_shape(message + ", no multiple of " + std::to_string(linear.factor) + ", the " +
                   "factor of " + unknown + " in " + text);
}

// Enumerates cells: chooses a term for each sum.
class Cells {
 public:
  explicit Cells(const Sizes& sizes) : sizes_(sizes) {}

  Result<std::vector<Cell>> of(const Axes& axes) {
    std::vector<Cell> all = {Cell{}};
    std::uint64_t stride = 1;
    // From the last axis on, because strides follow from the axes behind; the order of the text is
    // restored by putting the choices of earlier axes outside.
    for (std::size_t i = axes.size(); i-- > 0;) {
      axis_ = i;
      if (auto ok = prepend(axes[i], stride, all); !ok) return propagate(ok);
      stride *= size_of(axes[i]);
    }
    for (const Cell& cell : all) {
      if (const std::string* twice = repeated(cell)) {
        return invalid_map("'" + *twice + "' stands twice in one block of [" + to_string(axes) +
                           "]");
      }
    }
    return all;
  }

 private:
  std::uint64_t size_of(const Axis& axis) const {
    const auto size = Measure(sizes_).of(axis);
    return size ? size->constant : 0;
  }

  Result<void> prepend(const Axis& axis, std::uint64_t stride, std::vector<Cell>& cells) {
    std::vector<Cell> all;
    std::uint64_t begin = 0;
    for (const AxisTerm& term : axis.terms) {
      std::vector<Cell> with = cells;
      for (Cell& cell : with) cell.base += static_cast<std::int64_t>(begin * stride);
      if (auto ok = prepend(term, stride, with); !ok) return ok;
      if (all.size() + with.size() > kMaxCells)
        return invalid_map("the axes make more than 256 blocks");
      std::move(with.begin(), with.end(), std::back_inserter(all));
      begin += size_of(Axis{{term}});
    }
    cells = std::move(all);
    return {};
  }

  Result<void> prepend(const AxisTerm& term, std::uint64_t stride, std::vector<Cell>& cells) {
    if (term.kind == AxisTerm::Kind::kProduct) {
      for (std::size_t i = term.product.size(); i-- > 0;) {
        if (auto ok = prepend(term.product[i], stride, cells); !ok) return ok;
        stride *= size_of(term.product[i]);
      }
      return {};
    }
    Atom atom;
    if (term.kind == AxisTerm::Kind::kNumber) {
      if (term.number == 1) return {};
      atom.id = std::to_string(term.number);
      atom.size = term.number;
    } else {
      const auto size = sizes_.find(term.word);
      atom.id = term.word;
      atom.size = size == sizes_.end() ? 0 : size->second;
    }
    atom.stride = static_cast<std::int64_t>(stride);
    atom.axis = axis_;
    std::int64_t first = 0;
    if (term.is_reversed && atom.size > 0) {
      first = atom.stride * static_cast<std::int64_t>(atom.size - 1);
      atom.stride = -atom.stride;
    }
    for (Cell& cell : cells) {
      cell.base += first;
      cell.atoms.insert(cell.atoms.begin(), atom);
    }
    return {};
  }

  static const std::string* repeated(const Cell& cell) {
    for (std::size_t i = 0; i < cell.atoms.size(); ++i) {
      for (std::size_t k = 0; k < i; ++k) {
        if (cell.atoms[i].id == cell.atoms[k].id) return &cell.atoms[i].id;
      }
    }
    return nullptr;
  }

  const Sizes& sizes_;
  std::size_t axis_ = 0;
};

}  // namespace

Result<Axes> parse_axes(std::string_view text) {
  auto axes = AxesParser(text).parse();
  if (!axes) return axes;
  std::size_t rests = 0;
  for (const Axis& axis : *axes) {
    for (const AxisTerm& term : axis.terms) {
      if (term.kind != AxisTerm::Kind::kRest) continue;
      if (axis.terms.size() > 1) return invalid_map("'...' stands in a sum");
      if (++rests > 1) return invalid_map("'...' stands twice");
    }
  }
  return axes;
}

std::string to_string(const Axes& axes) {
  std::string text;
  print(axes, text);
  return text;
}

std::vector<std::string> words_of(const Axes& axes) {
  std::vector<std::string> words;
  for_each_word(axes, [&](const std::string& word) { words.push_back(word); });
  return words;
}

bool has_rest(const Axes& axes) { return std::any_of(axes.begin(), axes.end(), is_rest); }

std::optional<Axes> with_rank(const Axes& axes, std::size_t rank) {
  if (!has_rest(axes)) return axes.size() == rank ? std::optional(axes) : std::nullopt;
  if (axes.size() - 1 > rank) return std::nullopt;
  Axes all;
  for (const Axis& axis : axes) {
    if (!is_rest(axis)) {
      all.push_back(axis);
      continue;
    }
    // No word of a text begins like this.
    for (std::size_t i = 0; i < rank + 1 - axes.size(); ++i) {
      AxisTerm term;
      term.word = "..." + std::to_string(i);
      all.push_back(Axis{{std::move(term)}});
    }
  }
  return all;
}

Result<void> solve(const Axes& axes, std::span<const std::uint64_t> shape, Sizes& sizes) {
  for (std::size_t i = 0; i < axes.size(); ++i) {
    Measure measure(sizes);
    const auto size = measure.of(axes[i]);
    if (!size) return bad_shape("the sizes of [" + to_string(axes) + "] do not fit 64 bits");
    if (measure.has_several()) continue;
    if (size->factor == 0) {
      if (size->constant != shape[i]) return misfit(i, axes[i], shape[i], *size, {});
      continue;
    }
    if (shape[i] < size->constant || (shape[i] - size->constant) % size->factor != 0) {
      return misfit(i, axes[i], shape[i], *size, measure.unknown());
    }
    sizes.emplace(measure.unknown(), (shape[i] - size->constant) / size->factor);
  }
  return {};
}

std::optional<std::string> unknown_word(const Axes& axes, const Sizes& sizes) {
  std::optional<std::string> unknown;
  for_each_word(axes, [&](const std::string& word) {
    if (!unknown && !sizes.contains(word)) unknown = word;
  });
  return unknown;
}

Result<std::vector<std::uint64_t>> shape_of(const Axes& axes, const Sizes& sizes) {
  std::vector<std::uint64_t> shape;
  std::uint64_t elements = 1;
  for (const Axis& axis : axes) {
    const auto size = Measure(sizes).of(axis);
    const auto product =
        size ? checked_mul(elements, std::max<std::uint64_t>(size->constant, 1)) : std::nullopt;
    // Positions of elements are signed.
    if (!product || *product > std::uint64_t{1} << 60) {
      return bad_shape("a tensor of axes [" + to_string(axes) + "] would be too large");
    }
    elements = *product;
    shape.push_back(size->constant);
  }
  return shape;
}

Result<std::vector<Cell>> cells_of(const Axes& axes, const Sizes& sizes) {
  return Cells(sizes).of(axes);
}

}  // namespace espalier
