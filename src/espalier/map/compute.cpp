#include "espalier/map/compute.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "espalier/tree/elements.h"
#include "espalier/tree/encode_elements.h"

namespace espalier {
namespace {

// Elements in a block: so few that the numbers stay in the processor's cache.
constexpr std::size_t kBlockElements = 2048;

double apply(const MapStep& step, double value) {
  switch (step.kind) {
    case NumberStep::Kind::kAdd:
      return value + step.value;
    case NumberStep::Kind::kSubtract:
      return value - step.value;
    case NumberStep::Kind::kMultiply:
      return value * step.value;
    case NumberStep::Kind::kDivide:
      return value / step.value;
  }
  return value;
}

double undo(const MapStep& step, double value) {
  switch (step.kind) {
    case NumberStep::Kind::kAdd:
      return value - step.value;
    case NumberStep::Kind::kSubtract:
      return value + step.value;
    case NumberStep::Kind::kMultiply:
      return value / step.value;
    case NumberStep::Kind::kDivide:
      return value * step.value;
  }
  return value;
}

std::uint64_t round_to(DType to, std::span<const double> values, MutableByteSpan out) {
  if (to != DType::kF64) return encode_elements(to, values, out);
  static_assert(std::endian::native == std::endian::little);
  std::memcpy(out.data(), values.data(), out.size());
  return 0;
}

std::size_t bytes_of(DType dtype) { return dtype_bits(dtype) / 8; }

bool is_same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

// The elements of a term's products for one row of the target, or a part of it.
class TermRow {
 public:
  TermRow(const MapTerm& term, std::span<const OperandElements> operands, std::size_t target_loops)
      : term_(term), operands_(operands), target_loops_(target_loops) {
    numbers_.resize(operands.size());
    for (std::size_t i = 0; i < operands.size(); ++i) {
      numbers_[i].resize(operands[i].packed.size() / bytes_of(operands[i].dtype));
      decode_elements<double>(operands[i].dtype, operands[i].packed, 0, numbers_[i]);
    }
  }

  // Adds the term to `sums`, which are the elements from step `first` of the last target loop on.
  // `steps` are those of the target's other loops.
  void add_to(std::span<const std::uint64_t> steps, std::uint64_t first, std::span<double> sums) {
    positions_.clear();
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      const MapOperand& operand = term_.operands[i];
      std::int64_t position = operand.from - static_cast<std::int64_t>(operands_[i].begin);
      for (std::size_t loop = 0; loop < steps.size(); ++loop) {
        position += static_cast<std::int64_t>(steps[loop]) * operand.strides[loop];
      }
      if (target_loops_ > 0) {
        position += static_cast<std::int64_t>(first) * operand.strides[target_loops_ - 1];
      }
      positions_.push_back(position);
    }
    row_.assign(sums.size(), 0);
    sum_over(target_loops_);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += term_.factor * row_[i];
  }

 private:
  // Recursion is as deep as the term has loops that the target lacks.
  void sum_over(std::size_t loop) {
    if (loop == term_.counts.size()) return add_products();
    for (std::uint64_t step = 0; step < term_.counts[loop]; ++step) {
      sum_over(loop + 1);
      for (std::size_t i = 0; i < operands_.size(); ++i) {
        positions_[i] += term_.operands[i].strides[loop];
      }
    }
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      positions_[i] -=
          static_cast<std::int64_t>(term_.counts[loop]) * term_.operands[i].strides[loop];
    }
  }

  std::int64_t stride_of(std::size_t operand) const {
    return target_loops_ == 0 ? 0 : term_.operands[operand].strides[target_loops_ - 1];
  }

  // The products of a row. Operands that are one number for the row come first: the others are then
  // a line of the processor's widest moves.
  void add_products() {
    double constant = 1;
    varying_.clear();
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      if (stride_of(i) == 0) {
        constant *= numbers_[i][static_cast<std::size_t>(positions_[i])];
      } else {
        varying_.push_back(i);
      }
    }
    if (varying_.size() == 1 && stride_of(varying_.front()) == 1) {
      const double* line = numbers_[varying_.front()].data() + positions_[varying_.front()];
      for (std::size_t k = 0; k < row_.size(); ++k) row_[k] += constant * line[k];
      return;
    }
    for (std::size_t k = 0; k < row_.size(); ++k) {
      double product = constant;
      for (const std::size_t i : varying_) {
        product *= numbers_[i][static_cast<std::size_t>(
            positions_[i] + static_cast<std::int64_t>(k) * stride_of(i))];
      }
      row_[k] += product;
    }
  }

  const MapTerm& term_;
  std::span<const OperandElements> operands_;
  std::size_t target_loops_;
  std::vector<std::vector<double>> numbers_;
  std::vector<std::int64_t> positions_;
  std::vector<std::size_t> varying_;
  std::vector<double> row_;
};

}  // namespace

MapRounding compute(DType from, ByteSpan in, std::span<const MapStep> steps, DType to,
                    MutableByteSpan out) {
  MapRounding rounding;
  const std::size_t count = in.size() / bytes_of(from);
  std::array<double, kBlockElements> before;
  std::array<double, kBlockElements> after;
  for (std::size_t first = 0; first < count; first += kBlockElements) {
    const std::size_t size = std::min(kBlockElements, count - first);
    const auto numbers = std::span(before).first(size);
    const auto results = std::span(after).first(size);
    decode_elements<double>(from, in, first, numbers);
    std::copy(numbers.begin(), numbers.end(), results.begin());
    for (const MapStep& step : steps) {
      for (double& value : results) value = apply(step, value);
    }
    const auto made = out.subspan(first * bytes_of(to), size * bytes_of(to));
    rounding.overflows += round_to(to, results, made);
    decode_elements<double>(to, made, 0, results);
    for (std::size_t i = steps.size(); i-- > 0;) {
      for (double& value : results) value = undo(steps[i], value);
    }
    if (from != DType::kF64) {
      std::array<std::byte, kBlockElements * sizeof(double)> again;
      const auto bytes = std::span(again).first(size * bytes_of(from));
      round_to(from, results, bytes);
      decode_elements<double>(from, bytes, 0, results);
    }
    for (std::size_t i = 0; i < size; ++i) rounding.inexact += !is_same(numbers[i], results[i]);
  }
  return rounding;
}

OperandRange elements_for(const MapTerm& term, const MapOperand& operand, std::uint64_t first,
                          std::uint64_t last) {
  // Down to the first loop of the target that the elements have several steps of, each loop has
  // one; below it, any.
  std::int64_t low = operand.from;
  std::int64_t high = operand.from;
  if (std::find(term.counts.begin(), term.counts.end(), 0) != term.counts.end()) return {};
  const auto reach = [&](std::int64_t stride, std::uint64_t from, std::uint64_t to) {
    const std::int64_t a = stride * static_cast<std::int64_t>(from);
    const std::int64_t b = stride * static_cast<std::int64_t>(to);
    low += std::min(a, b);
    high += std::max(a, b);
  };
  std::uint64_t below = 1;
  for (std::size_t loop = 0; loop < term.target_loops; ++loop) below *= term.counts[loop];
  std::uint64_t from = first;
  std::uint64_t to = last - 1;
  bool is_narrow = true;
  for (std::size_t loop = 0; loop < term.counts.size(); ++loop) {
    const std::uint64_t count = term.counts[loop];
    if (loop >= term.target_loops || !is_narrow) {
      reach(operand.strides[loop], 0, count - 1);
      continue;
    }
    below /= count;
    const std::uint64_t begin = from / below;
    const std::uint64_t end = to / below;
    reach(operand.strides[loop], begin, end);
    is_narrow = begin == end;
    from %= below;
    to %= below;
  }
  return {static_cast<std::uint64_t>(low), static_cast<std::uint64_t>(high) + 1};
}

MapRounding compute_terms(std::span<const MapTerm> terms, std::span<const OperandElements> operands,
                          std::uint64_t first, DType to, MutableByteSpan out) {
  MapRounding rounding;
  const std::uint64_t count = out.size() / bytes_of(to);
  if (count == 0 || terms.empty()) return rounding;
  std::vector<TermRow> rows;
  rows.reserve(terms.size());
  for (const MapTerm& term : terms) {
    const auto own = operands.first(term.operands.size());
    operands = operands.subspan(term.operands.size());
    // A sum of nothing is 0, however often another axis would repeat it.
    const auto summed = std::span(term.counts).subspan(term.target_loops);
    if (std::find(summed.begin(), summed.end(), 0) != summed.end()) continue;
    rows.emplace_back(term, own, term.target_loops);
  }
  // All terms have the loops of the target in common.
  const std::size_t loops = terms.front().target_loops;
  const std::span counts = std::span(terms.front().counts).first(loops);
  const std::uint64_t row_size = loops == 0 ? 1 : counts.back();
  std::vector<std::uint64_t> steps(loops == 0 ? 0 : loops - 1);
  std::vector<double> sums;
  for (std::uint64_t done = 0; done < count;) {
    const std::uint64_t at = first + done;
    std::uint64_t row = at / row_size;
    for (std::size_t loop = steps.size(); loop-- > 0;) {
      steps[loop] = row % counts[loop];
      row /= counts[loop];
    }
    const std::uint64_t size =
        std::min({row_size - at % row_size, count - done, std::uint64_t{kBlockElements}});
    sums.assign(static_cast<std::size_t>(size), 0);
    for (TermRow& term : rows) term.add_to(steps, at % row_size, sums);
    rounding.overflows += round_to(to, sums,
                                   out.subspan(static_cast<std::size_t>(done) * bytes_of(to),
                                               static_cast<std::size_t>(size) * bytes_of(to)));
    done += size;
  }
  return rounding;
}

}  // namespace espalier
