#include <algorithm>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "espalier/health/layers.h"
#include "espalier/health/rules.h"
#include "espalier/health/wording.h"

namespace espalier {
namespace {

// Layers with the same parts that say what a layer has.
constexpr std::size_t kLeastOfLayers = kSiblings;
// Those in which a gap tells that a whole one is missing, and the tensors of each. Modules without
// tensors are numbered, too: networks of few parts have gaps for their activations.
constexpr std::size_t kLeastAroundGap = 7;
constexpr std::size_t kLeastOfLayer = 4;
// The share of layers in which something may be missing.
constexpr std::size_t kOneOfLayers = 10;

using Parts = std::vector<LayerPart>::const_iterator;

// The parts of one layer, in the order of their rests, and a hash of all of them.
struct Layer {
  Parts begin;
  Parts end;
  std::uint64_t rests = 0;

  std::size_t size() const { return static_cast<std::size_t>(end - begin); }
};

class Layers {
 public:
  Layers(const Cohort& cohort, std::vector<LayerPart> parts, Findings& found)
      : cohort_(cohort), parts_(std::move(parts)), found_(found) {
    // As a heap: the code is smaller than that of std::sort, and a page fetches it. An examined
    // tensor comes before what else has its path.
    const auto comes_before = [](const LayerPart& a, const LayerPart& b) {
      return std::tie(a.stack, a.layer, a.rest, a.tensor) <
             std::tie(b.stack, b.layer, b.rest, b.tensor);
    };
    std::make_heap(parts_.begin(), parts_.end(), comes_before);
    std::sort_heap(parts_.begin(), parts_.end(), comes_before);
    parts_.erase(std::unique(parts_.begin(), parts_.end(),
                             [](const LayerPart& a, const LayerPart& b) {
                               return std::tie(a.stack, a.layer, a.rest) ==
                                      std::tie(b.stack, b.layer, b.rest);
                             }),
                 parts_.end());
  }

  void judge() {
    for (auto begin = parts_.cbegin(); begin != parts_.cend();) {
      const std::uint64_t stack = begin->stack;
      std::vector<Layer> layers;
      while (begin != parts_.cend() && begin->stack == stack) {
        Layer& layer = layers.emplace_back(Layer{begin, begin});
        for (; layer.end != parts_.cend() && layer.end->stack == stack &&
               layer.end->layer == begin->layer;
             ++layer.end) {
          layer.rests += layer.end->rest;
        }
        begin = layer.end;
      }
      if (layers.size() > kLeastOfLayers) judge(layers);
    }
  }

 private:
  const std::string& path_of(const LayerPart& part) const { return cohort_[part.tensor].path; }

  static bool is_examined(const LayerPart& part) { return part.tensor != LayerPart::kNoTensor; }

  // The path that a part has in another layer.
  std::string path_in(const LayerPart& part, std::uint32_t layer) const {
    const std::string& path = path_of(part);
    std::string digits = std::to_string(layer);
    const std::size_t width = part.end - part.begin;
    if (path[part.begin] == '0' && digits.size() < width) {
      digits.insert(0, width - digits.size(), '0');
    }
    return path.substr(0, part.begin) + digits + path.substr(part.end);
  }

  // The first tensor of a layer in the order of the file, or nullptr if none was examined.
  const LayerPart* first_of(const Layer& layer) const {
    const LayerPart* first = nullptr;
    for (auto part = layer.begin; part != layer.end; ++part) {
      if (is_examined(*part) && (first == nullptr || part->tensor < first->tensor)) first = &*part;
    }
    return first;
  }

  void judge(const std::vector<Layer>& layers) {
    // The one that most are like, if any is (the majority vote of Boyer and Moore).
    const Layer* usual = nullptr;
    std::size_t votes = 0;
    for (const Layer& layer : layers) {
      if (votes == 0) usual = &layer;
      votes = layer.rests == usual->rests ? votes + 1 : votes - 1;
    }
    std::vector<const Layer*> alike;
    for (const Layer& layer : layers) {
      if (layer.rests == usual->rests && layer.size() == usual->size()) alike.push_back(&layer);
    }
    const std::size_t most = std::max<std::size_t>(1, layers.size() / kOneOfLayers);
    if (alike.size() < kLeastOfLayers || alike.size() + most < layers.size()) return;
    const std::vector<const LayerPart*> examples = examples_of(alike);
    for (std::size_t i = 1; i + 1 < layers.size(); ++i) {
      if (layers[i].size() < usual->size()) judge_layer(layers[i], examples, alike);
    }
    judge_gap(layers, examples);
  }

  // For each part of layers that are alike, the first of them that was examined; nullptr if none
  // was, or if it is a moment: a parameter without a gradient has none.
  std::vector<const LayerPart*> examples_of(const std::vector<const Layer*>& alike) const {
    std::vector<const LayerPart*> examples(alike.front()->size());
    for (std::size_t i = 0; i < examples.size(); ++i) {
      bool is_moment = false;
      for (const Layer* layer : alike) {
        const LayerPart& part = layer->begin[static_cast<std::ptrdiff_t>(i)];
        if (!is_examined(part)) continue;
        const Role role = cohort_[part.tensor].role;
        is_moment = is_moment || role == Role::kFirst || role == Role::kSquares;
        if (examples[i] == nullptr) examples[i] = &part;
      }
      if (is_moment) examples[i] = nullptr;
    }
    return examples;
  }

  // A layer whose parts are some of the usual ones. One with others, too, is of another kind.
  void judge_layer(const Layer& layer, const std::vector<const LayerPart*>& examples,
                   const std::vector<const Layer*>& alike) {
    if (first_of(layer) == nullptr) return;
    std::vector<const LayerPart*> missing;
    auto own = layer.begin;
    auto usual = alike.front()->begin;
    for (const LayerPart* example : examples) {
      const std::uint64_t rest = usual++->rest;
      if (own != layer.end && own->rest == rest) {
        ++own;
      } else if (example != nullptr) {
        missing.push_back(example);
      }
    }
    if (own != layer.end) return;
    for (const LayerPart* example : missing) {
      found_.add(HealthRule::kMissing, Severity::kWarning, path_in(*example, layer.begin->layer),
                 "is missing, and " + grouped(alike.size()) + " layers like it have it, such as",
                 std::nullopt, path_of(*example));
    }
  }

  void judge_gap(const std::vector<Layer>& layers, const std::vector<const LayerPart*>& examples) {
    const std::size_t span = layers.back().begin->layer - layers.front().begin->layer + 1;
    const auto judged = examples.size() - static_cast<std::size_t>(std::count(
                                              examples.begin(), examples.end(), nullptr));
    if (layers.size() < kLeastAroundGap || judged < kLeastOfLayer || span != layers.size() + 1) {
      return;
    }
    for (std::size_t i = 1; i < layers.size(); ++i) {
      const std::uint32_t missing = layers[i - 1].begin->layer + 1;
      if (layers[i].begin->layer == missing) continue;
      const LayerPart* beside = first_of(layers[i]);
      if (beside == nullptr) return;
      // Numbered modules without tensors, such as a Dropout among blocks, leave the same gap.
      const std::string path = path_in(*beside, missing);
      const std::size_t rest = path_of(*beside).size() - beside->end;
      found_.add(
          HealthRule::kMissing, Severity::kNote, path.substr(0, path.size() - rest),
          "all of it is missing, and " + grouped(layers.size()) + " others like it are there");
    }
  }

  const Cohort& cohort_;
  std::vector<LayerPart> parts_;
  Findings& found_;
};

}  // namespace

void judge_missing(const Cohort& cohort, std::vector<LayerPart> parts, Findings& found) {
  Layers(cohort, std::move(parts), found).judge();
}

}  // namespace espalier
