#include "espalier/map/adapter_scales.h"

#include <cmath>
#include <string>

#include "espalier/base/real_text.h"
#include "espalier/map/adapter.h"
#include "espalier/map/map_error.h"

namespace espalier {
namespace {

// Whether multiplying by it only changes exponents.
bool is_power_of_two(double number) {
  int exponent = 0;
  return std::isfinite(number) && std::fabs(std::frexp(number, &exponent)) == 0.5;
}

class ScaleFinder {
 public:
  ScaleFinder(const AdapterModules& found, const MapTarget& weight, std::uint64_t rank)
      : found_(found), weight_(weight), rank_(rank) {}

  Result<AdapterScales> find(const RankStacks& stacks) {
    AdapterScales scales;
    for (const auto& [stack, blocks] : stacks) {
      for (const RankBlock& block : blocks) {
        if (scales.by_module.emplace(block.module, 1.0).second) modules_.push_back(block.module);
      }
    }
    const AdapterModule& first = module_at(modules_.front());
    if (modules_.size() == 1 && first.rank == rank_) {
      scales.alpha = first.alpha;
      return scales;
    }
    const auto least = least_scaled();
    if (!least) return propagate(least);
    for (const std::uint32_t number : modules_) {
      const auto factor = factor_of(module_at(number), **least);
      if (!factor) return propagate(factor);
      scales.by_module[number] = *factor;
    }
    const auto rank = static_cast<double>(rank_);
    const auto old_rank = static_cast<double>((*least)->rank);
    scales.alpha = found_.is_rank_stabilized() ? *(*least)->alpha * std::sqrt(rank / old_rank)
                                               : *(*least)->alpha * rank / old_rank;
    if (!std::isfinite(*scales.alpha)) {
      return failed(weight_.rule, ErrorCode::kMapNotInvertible,
                    "the factors of " + in_quotes(weight_.name) + " are joined from " +
                        joined_names() + ", and their alpha would be larger than " +
                        print_number(*(*least)->alpha) + " and too large a number");
    }
    return scales;
  }

 private:
  const AdapterModule& module_at(std::uint32_t number) const { return found_.modules()[number]; }

  // Of a module beside another one, of alpha/rank, or of the square of alpha/sqrt(rank). Products
  // of whole numbers are exact.
  double ratio_of(const AdapterModule& module, const AdapterModule& beside) const {
    double own = *module.alpha * static_cast<double>(beside.rank);
    double other = *beside.alpha * static_cast<double>(module.rank);
    if (found_.is_rank_stabilized()) {
      own *= *module.alpha;
      other *= *beside.alpha;
    }
    return own / other;
  }

  // The others grow, so that no small number is lost.
  Result<const AdapterModule*> least_scaled() const {
    const AdapterModule* least = nullptr;
    for (const std::uint32_t number : modules_) {
      const AdapterModule& module = module_at(number);
      if (!module.alpha) {
        return failed(
            weight_.rule, ErrorCode::kMapUndetermined,
            "the factors of " + in_quotes(weight_.name) + " are joined from " + joined_names() +
                ", and their alpha follows from those of the parts, which are not known; " +
                found_.why_no_alpha());
      }
      if (least == nullptr || ratio_of(module, *least) < 1) least = &module;
    }
    return least;
  }

  // What B of a module is multiplied by, to be scaled as `least` is.
  Result<double> factor_of(const AdapterModule& module, const AdapterModule& least) const {
    double factor = ratio_of(module, least);
    if (!std::isfinite(factor) || factor <= 0) {
      return failed(weight_.rule, ErrorCode::kMapNotInvertible,
                    "the factors of " + in_quotes(weight_.name) + " are joined from " +
                        joined_names() + ", whose alphas " + print_number(*module.alpha) + " and " +
                        print_number(*least.alpha) + " are too large or too small");
    }
    if (found_.is_rank_stabilized()) factor = std::sqrt(factor);
    if (factor != 1 && !is_power_of_two(factor)) {
      return failed(
          weight_.rule, ErrorCode::kMapNotInvertible,
          found_.quoted(least, AdapterPart::kB) + " and " + found_.quoted(module, AdapterPart::kB) +
              " are scaled by numbers whose ratio " + print_number(factor) +
              " is no power of 2, so that no alpha is exact for " + in_quotes(weight_.name) +
              "; train them with one alpha/r, or merge the adapter into its base, and "
              "map that");
    }
    return factor;
  }

  std::string joined_names() const {
    std::string text = found_.quoted(module_at(modules_.front()), AdapterPart::kB);
    if (modules_.size() > 1) {
      text += " and " + found_.quoted(module_at(modules_[1]), AdapterPart::kB);
    }
    if (modules_.size() > 2) text += " (and " + std::to_string(modules_.size() - 2) + " more)";
    return text;
  }

  const AdapterModules& found_;
  const MapTarget& weight_;
  std::uint64_t rank_;
  std::vector<std::uint32_t> modules_;  // in the order of the blocks
};

}  // namespace

Result<AdapterScales> scales_of(const AdapterModules& found, const MapTarget& weight,
                                const RankStacks& stacks, std::uint64_t rank) {
  return ScaleFinder(found, weight, rank).find(stacks);
}

}  // namespace espalier
