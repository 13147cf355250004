#include "espalier/map/target_maker.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "espalier/base/merge_sort.h"
#include "espalier/map/map_error.h"

namespace espalier {

TargetMaker::TargetMaker(const MapPlan& plan, const MapTarget& target, std::uint64_t begin,
                         std::uint64_t end)
    : plan_(&plan), target_(&target), begin_(begin), end_(end) {}

Result<TargetMaker> TargetMaker::make(const MapPlan& plan, std::size_t target, std::uint64_t begin,
                                      std::uint64_t end, std::uint64_t memory) {
  TargetMaker maker(plan, plan.targets()[target], begin, end);
  const MapTarget& made = *maker.target_;
  const std::uint64_t size = std::max<std::uint64_t>(1, dtype_bits(made.dtype) / 8);
  maker.first_ = begin / size;
  maker.last_ = (end + size - 1) / size;
  if (begin == end) return maker;
  if (made.source != MapPiece::kZeros) {
    maker.image_.resize(static_cast<std::size_t>(end - begin));
    maker.window_ = {begin, end};
    maker.steps_.push_back({{made.source, begin, end}, nullptr});
  } else if (made.terms.empty()) {
    maker.need_image();
  } else if (auto ok = maker.need_operands(memory); !ok) {
    return propagate(ok);
  }
  return maker;
}

void TargetMaker::need_image() {
  recipe_ = TargetRecipe::of(*plan_, *target_);
  window_ = {begin_, end_};
  if (changes_numbers(*plan_, *target_)) {
    const auto from = image_dtype(*plan_, *target_);
    const std::uint64_t bytes = from ? dtype_bits(*from) / 8 : 1;
    window_ = {first_ * bytes, last_ * bytes};
  }
  image_.resize(static_cast<std::size_t>(window_.end - window_.begin));
  recipe_->fill_zeros(window_, image_.data());
  for (const TargetRecipe::Part* part : recipe_->parts_in(window_)) {
    const TargetRecipe::Window all = part->copy.source_for(window_);
    const MapLeaf& leaf = plan_->leaves()[part->source];
    const MapUnit unit = unit_of(leaf);
    const std::uint64_t bytes = elements_of(leaf.shape) / unit.elements * unit.bytes;
    // The same blocks for every window, so that a host can keep them.
    for (std::uint64_t at = all.begin / kNeedBytes * kNeedBytes; at < all.end; at += kNeedBytes) {
      const TargetRecipe::Window some{at, std::min(at + kNeedBytes, bytes)};
      if (part->copy.needs(some, window_)) {
        steps_.push_back({{part->source, some.begin, some.end}, part});
      }
    }
  }
  // A source that several parts take from is read in its own order.
  sort_stably(steps_, [](const Step& a, const Step& b) {
    return std::pair(a.need.leaf, a.need.begin) < std::pair(b.need.leaf, b.need.begin);
  });
}

Result<void> TargetMaker::need_operands(std::uint64_t memory) {
  std::uint64_t needed = 0;
  for (const MapTerm& term : target_->terms) {
    for (const MapOperand& operand : term.operands) {
      const std::uint64_t bytes = dtype_bits(plan_->leaves()[operand.source].dtype) / 8;
      const OperandRange range = elements_for(term, operand, first_, last_);
      // As packed elements and as doubles.
      needed += (range.end - range.begin) * (bytes + sizeof(double));
      if (needed > memory) {
        return fail(ErrorCode::kLimitExceeded,
                    in_quotes(target_->name) +
                        " is computed from more of its operands at once than " +
                        std::to_string(memory) + " bytes of memory hold; allow more");
      }
      steps_.push_back({{operand.source, range.begin * bytes, range.end * bytes}, nullptr});
    }
  }
  return {};
}

std::optional<TargetMaker::Need> TargetMaker::need() const {
  if (done_ == steps_.size()) return std::nullopt;
  return steps_[done_].need;
}

void TargetMaker::feed(ByteSpan bytes) {
  const Step& step = steps_[done_++];
  if (step.part != nullptr) {
    step.part->copy.copy({step.need.begin, step.need.end}, bytes.data(), window_, image_.data());
  } else if (target_->terms.empty()) {
    std::copy(bytes.begin(), bytes.end(), image_.begin());
  } else {
    operands_.emplace_back(bytes.begin(), bytes.end());
  }
}

std::vector<std::byte> TargetMaker::take() && {
  const bool has_terms = !target_->terms.empty();
  if (begin_ == end_ || (!has_terms && (!recipe_ || !changes_numbers(*plan_, *target_)))) {
    return std::move(image_);
  }
  const std::uint64_t size = dtype_bits(target_->dtype) / 8;
  std::vector<std::byte> whole(static_cast<std::size_t>((last_ - first_) * size));
  if (has_terms) {
    std::vector<OperandElements> operands;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      const DType dtype = plan_->leaves()[steps_[i].need.leaf].dtype;
      operands.push_back({dtype, steps_[i].need.begin / (dtype_bits(dtype) / 8), operands_[i]});
    }
    rounding_ = compute_terms(target_->terms, operands, first_, target_->dtype, whole);
  } else {
    rounding_ = compute_image(*plan_, *target_, *recipe_, first_, image_, whole);
  }
  const auto skipped = static_cast<std::ptrdiff_t>(begin_ - first_ * size);
  return {whole.begin() + skipped,
          whole.begin() + skipped + static_cast<std::ptrdiff_t>(end_ - begin_)};
}

}  // namespace espalier
