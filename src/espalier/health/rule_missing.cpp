#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "espalier/base/counted.h"
#include "espalier/bytes.h"
#include "espalier/codec/hash.h"
#include "espalier/health/check.h"
#include "espalier/health/rules.h"
#include "espalier/health/wording.h"

namespace espalier {
namespace {

// Layers with the same tensors that say what a layer has.
constexpr std::size_t kLeastOfLayers = kSiblings;
// Those in which a gap tells that a whole one is missing, and the tensors of each. Modules without
// tensors are numbered, too: networks of few parts have gaps for their activations.
constexpr std::size_t kLeastAroundGap = 7;
constexpr std::size_t kLeastOfLayer = 4;
// The share of layers in which something may be missing.
constexpr std::size_t kOneOfLayers = 10;
constexpr std::size_t kMostDigits = 9;
// Numbers of a path that may be those of layers, experts or blocks: a hostile path has hundreds.
constexpr std::size_t kMostNumbers = 4;

// A tensor of a layer: what its path has before the layer's number, that number, and the rest.
struct LayerPart {
  std::uint64_t stack = 0;
  std::uint32_t number = 0;
  std::uint64_t rest = 0;
  std::uint32_t tensor = 0;
  std::size_t begin = 0;  // of the number in the path
  std::size_t end = 0;
};

// The tensors of one layer, and a hash of all their rests.
struct Layer {
  std::vector<LayerPart>::const_iterator begin;
  std::vector<LayerPart>::const_iterator end;
  std::uint64_t rests = 0;

  std::size_t size() const { return static_cast<std::size_t>(end - begin); }
};

bool is_of_number(char c) { return c >= '0' && c <= '9'; }

class Layers {
 public:
  Layers(const Cohort& cohort, Findings& found) : cohort_(cohort), found_(found) {
    for (std::uint32_t i = 0; i < cohort.tensors().size(); ++i) {
      // A parameter without a gradient has no moments. A path that was cut has no rest.
      if (cohort[i].role != Role::kPlain || cohort[i].path.size() >= HealthCheck::kMostPathBytes) {
        continue;
      }
      const std::string_view path = cohort[i].path;
      std::size_t numbers = 0;
      for (std::size_t at = 0; at < path.size() && numbers < kMostNumbers; ++numbers) {
        while (at < path.size() && !is_of_number(path[at])) ++at;
        if (at < path.size()) at = add(i, at);
      }
    }
    // As a heap: the code is smaller than that of std::sort, and a page fetches it.
    const auto comes_before = [](const LayerPart& a, const LayerPart& b) {
      return std::tie(a.stack, a.number, a.rest) < std::tie(b.stack, b.number, b.rest);
    };
    std::make_heap(parts_.begin(), parts_.end(), comes_before);
    std::sort_heap(parts_.begin(), parts_.end(), comes_before);
  }

  void judge() {
    for (auto begin = parts_.cbegin(); begin != parts_.cend();) {
      const std::uint64_t stack = begin->stack;
      std::vector<Layer> layers;
      while (begin != parts_.cend() && begin->stack == stack) {
        Layer& layer = layers.emplace_back(Layer{begin, begin});
        for (; layer.end != parts_.cend() && layer.end->stack == stack &&
               layer.end->number == begin->number;
             ++layer.end) {
          layer.rests += layer.end->rest;
        }
        begin = layer.end;
      }
      if (layers.size() > kLeastOfLayers) judge(layers);
    }
  }

 private:
  // Returns the end of the number.
  std::size_t add(std::uint32_t tensor, std::size_t begin) {
    const std::string_view path = cohort_[tensor].path;
    std::size_t end = begin;
    while (end < path.size() && is_of_number(path[end])) ++end;
    if (end - begin > kMostDigits) return end;
    std::uint32_t number = 0;
    std::from_chars(path.data() + begin, path.data() + end, number);
    const auto id = [](std::string_view text) { return hash64(as_bytes(text)); };
    parts_.push_back({id(path.substr(0, begin)), number, id(path.substr(end)), tensor, begin, end});
    return end;
  }

  // The path that a part has in another layer.
  std::string path_in(const LayerPart& part, std::uint32_t number) const {
    const std::string& path = cohort_[part.tensor].path;
    std::string digits = std::to_string(number);
    const std::size_t width = part.end - part.begin;
    if (path[part.begin] == '0' && digits.size() < width) {
      digits.insert(0, width - digits.size(), '0');
    }
    return path.substr(0, part.begin) + digits + path.substr(part.end);
  }

  // In the order of the file.
  using Parts = std::vector<LayerPart>::const_iterator;
  static const LayerPart& first_of(Parts begin, Parts end) {
    return *std::min_element(
        begin, end, [](const LayerPart& a, const LayerPart& b) { return a.tensor < b.tensor; });
  }

  void judge(const std::vector<Layer>& layers) {
    // The one that most are like, if any is (the majority vote of Boyer and Moore).
    const Layer* usual = nullptr;
    std::size_t votes = 0;
    for (const Layer& layer : layers) {
      if (votes == 0) usual = &layer;
      votes = layer.rests == usual->rests ? votes + 1 : votes - 1;
    }
    const auto alike = static_cast<std::size_t>(
        std::count_if(layers.begin(), layers.end(),
                      [&](const Layer& layer) { return layer.rests == usual->rests; }));
    const std::size_t most = std::max<std::size_t>(1, layers.size() / kOneOfLayers);
    if (alike < kLeastOfLayers || alike + most < layers.size()) return;
    for (std::size_t i = 1; i + 1 < layers.size(); ++i) {
      if (layers[i].size() < usual->size()) judge_layer(layers[i], *usual, alike);
    }
    const std::size_t span = layers.back().begin->number - layers.front().begin->number + 1;
    if (layers.size() < kLeastAroundGap || usual->size() < kLeastOfLayer ||
        span != layers.size() + 1) {
      return;
    }
    for (std::size_t i = 1; i < layers.size(); ++i) {
      const std::uint32_t missing = layers[i - 1].begin->number + 1;
      if (layers[i].begin->number == missing) continue;
      const LayerPart& beside = first_of(layers[i].begin, layers[i].end);
      const std::string path = path_in(beside, missing);
      const std::size_t rest = cohort_[beside.tensor].path.size() - beside.end;
      found_.add(HealthRule::kMissing, Severity::kWarning, cohort_[beside.tensor].path,
                 "all of " + path.substr(0, path.size() - rest) + " is missing, and " +
                     grouped(layers.size()) + " others like it are there");
    }
  }

  // A layer whose tensors are some of the usual ones. One with others, too, is of another kind.
  void judge_layer(const Layer& layer, const Layer& usual, std::size_t alike) {
    const LayerPart* first = nullptr;
    std::size_t missing = 0;
    auto own = layer.begin;
    for (auto part = usual.begin; part != usual.end; ++part) {
      if (own != layer.end && own->rest == part->rest) {
        ++own;
        continue;
      }
      ++missing;
      if (first == nullptr || part->tensor < first->tensor) first = &*part;
    }
    if (own != layer.end || first == nullptr) return;
    const LayerPart& beside = first_of(layer.begin, layer.end);
    found_.add(HealthRule::kMissing, Severity::kWarning, cohort_[beside.tensor].path,
               path_in(*first, layer.begin->number) +
                   (missing > 1 ? " and " + counted(missing - 1, "other") + " are" : " is") +
                   " missing, and " + grouped(alike) + " layers like it have " +
                   (missing > 1 ? "them" : "it"),
               std::nullopt, cohort_[first->tensor].path);
  }

  const Cohort& cohort_;
  Findings& found_;
  std::vector<LayerPart> parts_;
};

}  // namespace

void judge_missing(const Cohort& cohort, Findings& found) { Layers(cohort, found).judge(); }

}  // namespace espalier
