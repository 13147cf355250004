#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "espalier/base/utf8.h"
#include "espalier/health/check.h"
#include "espalier/health/tensor_survey.h"

namespace espalier {
namespace {

using Floats = std::vector<float>;
using Shape64 = std::vector<std::uint64_t>;

Floats noise(std::size_t count, float scale, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, scale);
  Floats values(count);
  for (float& value : values) value = normal(random);
  return values;
}

TensorSurvey survey_of(const Floats& values, const Shape64& shape, std::size_t piece = 0) {
  Surveyor surveyor(DType::kF32, shape);
  const ByteSpan bytes = std::as_bytes(std::span(values));
  if (piece == 0) piece = bytes.size();
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    surveyor.add(bytes.subspan(at, std::min(piece, bytes.size() - at)));
  }
  return surveyor.survey();
}

// A model with 12 layers of the same kinds, in which one thing can be changed.
struct Model {
  std::vector<std::pair<std::string, std::pair<Floats, Shape64>>> tensors;
  std::vector<std::string> present;  // what is not examined

  Model() {
    for (unsigned layer = 0; layer < 12; ++layer) {
      const std::string at = "layers/" + std::to_string(layer) + "/";
      tensors.push_back({at + "q_proj/weight", {noise(64 * 48, 0.02F, layer), {64, 48}}});
      tensors.push_back({at + "norm/weight", {Floats(64, 1), {64}}});
      tensors.push_back({at + "norm/bias", {Floats(64, 0), {64}}});
    }
    tensors.push_back({"embed/weight", {noise(100 * 48, 0.02F, 99), {100, 48}}});
  }
  Floats& at(const std::string& path) {
    for (auto& [name, tensor] : tensors) {
      if (name == path) return tensor.first;
    }
    FAIL("no " << path);
    return tensors[0].second.first;
  }
  void remove(const std::string& path) {
    const auto count =
        std::erase_if(tensors, [&](const auto& tensor) { return tensor.first == path; });
    REQUIRE(count == 1);
  }
  std::vector<Finding> findings() const {
    HealthCheck check;
    for (const std::string& path : present) check.add_present(path);
    // In any order: each has its number.
    for (std::size_t i = tensors.size(); i-- > 0;) {
      const auto& [path, tensor] = tensors[i];
      check.add(i, path, survey_of(tensor.first, tensor.second));
    }
    return check.findings();
  }
  // Exactly one finding, of this rule.
  Finding only(HealthRule rule) const {
    const std::vector<Finding> found = findings();
    std::string all;
    for (const Finding& finding : found) all += finding.path + ": " + finding.text + "\n";
    INFO(all);
    REQUIRE(found.size() == 1);
    CHECK(found[0].rule == rule);
    return found[0];
  }
};

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST_CASE("a model without a fault has no findings") { CHECK(Model().findings().empty()); }

TEST_CASE("each fault is found, and nothing else") {
  Model model;
  Floats& weight = model.at("layers/3/q_proj/weight");
  SUBCASE("nan") {
    weight[5 * 48 + 7] = kNan;
    weight[9 * 48] = kNan;
    const Finding found = model.only(HealthRule::kNan);
    CHECK(found.severity == Severity::kFault);
    CHECK(found.path == "layers/3/q_proj/weight");
    CHECK(found.text == "2 of 3,072 elements are NaN, the first at [5, 7]");
    CHECK(found.at == 5 * 48 + 7);
  }
  SUBCASE("infinite") {
    weight.back() = -kInfinity;
    CHECK(model.only(HealthRule::kInfinite).text ==
          "1 of 3,072 elements is infinite, the first at [63, 47]");
  }
  SUBCASE("an enormous element of a short vector") {
    model.tensors.push_back({"head/bias", {noise(10, 0.02F, 3), {10}}});
    model.at("head/bias")[4] = 1e38F;
    CHECK(model.only(HealthRule::kEnormous).path == "head/bias");
  }
  SUBCASE("all infinite") {
    weight.assign(weight.size(), kInfinity);
    CHECK(model.only(HealthRule::kInfinite).text ==
          "3,072 of 3,072 elements are infinite, the first at [0, 0]");
  }
  SUBCASE("infinite among zeros") {
    model.at("layers/3/norm/bias")[5] = -kInfinity;
    model.at("layers/4/norm/bias")[5] = model.at("layers/4/norm/bias")[6] = kInfinity;
    const std::vector<Finding> found = model.findings();
    REQUIRE(found.size() == 2);
    CHECK(found[0].text == "1 of 64 elements is infinite, the first at [5]");
    CHECK(found[1].text == "2 of 64 elements are infinite, the first at [5]");
  }
  SUBCASE("a number that is a tensor") {
    model.tensors.push_back({"scale", {{kNan}, {}}});
    CHECK(model.only(HealthRule::kNan).text == "is NaN");
  }
  SUBCASE("an element of a vector of random numbers") {
    model.tensors.push_back({"bias", {noise(512, 0.02F, 5), {512}}});
    model.at("bias")[77] = 1e20F;
    CHECK(model.only(HealthRule::kOutlierElements).path == "bias");
  }
  SUBCASE("all zero") {
    weight.assign(weight.size(), 0);
    CHECK(model.only(HealthRule::kAllZero).text ==
          "all 3,072 elements are zero, and those of others of its kind are not");
  }
  SUBCASE("constant") {
    weight.assign(weight.size(), 0.5F);
    CHECK(model.only(HealthRule::kConstant).text ==
          "all 3,072 elements are 0.5, and those of others of its kind are not");
  }
  SUBCASE("dead rows") {
    std::fill_n(weight.begin() + 10 * 48, 4 * 48, 0.F);
    const Finding found = model.only(HealthRule::kDeadRows);
    CHECK(found.text == "4 of 64 rows are zero, the first is number 10");
    CHECK(found.at == 10);
  }
  SUBCASE("dead columns") {
    for (std::size_t row = 0; row < 64; ++row) weight[row * 48 + 3] = weight[row * 48 + 47] = 0;
    CHECK(model.only(HealthRule::kDeadColumns).text ==
          "2 of 48 columns are zero, the first is number 3");
  }
  SUBCASE("an outlier column") {
    for (std::size_t row = 0; row < 64; ++row) weight[row * 48 + 46] *= 40;
    CHECK(model.only(HealthRule::kOutlierColumns).at == 46);
  }
  SUBCASE("an outlier row") {
    for (std::size_t column = 0; column < 48; ++column) weight[63 * 48 + column] *= 40;
    CHECK(model.only(HealthRule::kOutlierRows).at == 63);
  }
  SUBCASE("a column of ten medians, where all others are alike") {
    for (std::size_t row = 0; row < 64; ++row) weight[row * 48 + 46] *= 10;
    CHECK(model.only(HealthRule::kOutlierColumns).at == 46);
  }
  SUBCASE("two outlier columns") {
    for (std::size_t row = 0; row < 64; ++row) {
      weight[row * 48 + 46] *= 40;
      weight[row * 48 + 2] *= 30;
    }
    CHECK(model.only(HealthRule::kOutlierColumns).text.starts_with("2 columns have "));
  }
  SUBCASE("one element, as large as the type has") {
    weight[100] = std::numeric_limits<float>::max();
    CHECK(model.only(HealthRule::kEnormous).text ==
          "the largest magnitude is 3.4e38, and its square is beyond f32");
  }
  SUBCASE("an element of a vector") {
    model.at("layers/3/norm/weight")[5] = 300;
    CHECK(model.only(HealthRule::kSpike).path == "layers/3/norm/weight");
  }
  SUBCASE("a matrix 30 times as large, in a kind that is alike") {
    for (float& x : weight) x *= 30;
    CHECK(model.only(HealthRule::kNorm).path == "layers/3/q_proj/weight");
  }
  SUBCASE("a matrix twice as large") {
    for (float& x : weight) x *= 2;
    const Finding found = model.only(HealthRule::kNorm);
    CHECK(found.path == "layers/3/q_proj/weight");
    CHECK(found.severity == Severity::kWarning);
  }
  SUBCASE("a matrix at the end of a stack, twice and three times as large") {
    float factor = 0;
    Severity wanted{};
    SUBCASE("twice") {
      factor = 2;
      wanted = Severity::kNote;
    }
    SUBCASE("three times") {
      factor = 3;
      wanted = Severity::kWarning;
    }
    for (float& x : model.at("layers/11/q_proj/weight")) x *= factor;
    CHECK(model.only(HealthRule::kNorm).severity == wanted);
  }
  SUBCASE("half of the rows, 2.1 times as large") {
    for (std::size_t i = 0; i < weight.size(); i += 96) {
      for (std::size_t column = 0; column < 48; ++column) weight[i + column] *= 2.1F;
    }
    CHECK(model.only(HealthRule::kUnevenRows).path == "layers/3/q_proj/weight");
  }
  SUBCASE("rounded to a sixth of the values") {
    for (float& x : weight) x = std::round(x * 4000) / 4000;
    CHECK(model.only(HealthRule::kFewValues).path == "layers/3/q_proj/weight");
  }
  SUBCASE("a tensor that one layer lacks") {
    model.remove("layers/5/norm/bias");
    const Finding found = model.only(HealthRule::kMissing);
    CHECK(found.severity == Severity::kWarning);
    CHECK(found.path == "layers/5/norm/bias");
    CHECK(found.text == "is missing, and 11 layers like it have it, such as");
    CHECK(found.other == "layers/0/norm/bias");
  }
  SUBCASE("two tensors that one expert lacks") {
    for (unsigned expert = 0; expert < 6; ++expert) {
      const std::string at = "layers/3/experts/" + std::to_string(expert) + "/";
      for (const char* name : {"w1", "w2", "w3"}) {
        model.tensors.push_back(
            {at + name, {noise(8 * 4, 1, expert + 100 * unsigned(name[1])), {8, 4}}});
      }
    }
    model.remove("layers/3/experts/2/w1");
    model.remove("layers/3/experts/2/w3");
    const std::vector<Finding> found = model.findings();
    REQUIRE(found.size() == 2);
    CHECK(found[0].path == "layers/3/experts/2/w1");
    CHECK(found[1].path == "layers/3/experts/2/w3");
    CHECK(found[1].text == "is missing, and 5 layers like it have it, such as");
    CHECK(found[1].other == "layers/3/experts/0/w3");
  }
  SUBCASE("a layer that a stack lacks: as a module without tensors") {
    for (const char* name : {"q_proj/weight", "norm/weight", "norm/bias"}) {
      model.remove("layers/5/" + std::string(name));
    }
    for (unsigned layer = 0; layer < 12; ++layer) {
      if (layer == 5) continue;
      model.tensors.push_back({"layers/" + std::to_string(layer) + "/k_proj/weight",
                               {noise(64 * 48, 0.02F, layer + 1000), {64, 48}}});
    }
    const Finding found = model.only(HealthRule::kMissing);
    CHECK(found.severity == Severity::kNote);
    CHECK(found.path == "layers/5");
    CHECK(found.text == "all of it is missing, and 11 others like it are there");
  }
  SUBCASE("an escaped name, one of many bytes that is cut, and one of many numbers") {
    // Cut between characters, it has fewer bytes than a cut one may have.
    std::string wide;
    for (int i = 0; i < 260; ++i) wide += "\xc3\xa9";
    const std::string names[] = {"enc~1blocks~1#~1", wide + ".#/",
                                 "net1/v2/stage3/wav2vec2/x5/y6/layers/#/"};
    for (const std::string& name : names) {
      Model other;
      other.tensors.clear();
      for (unsigned layer = 0; layer < 8; ++layer) {
        std::string at = name;
        at.replace(at.find('#'), 1, std::to_string(layer));
        for (const char* end : {"a", "b"}) {
          if (layer == 3 && *end == 'b') continue;
          other.tensors.push_back({at + end, {Floats(16, 1), {16}}});
        }
      }
      const std::vector<Finding> found = other.findings();
      CAPTURE(name);
      // A path that is cut names no layer.
      if (name.size() > HealthCheck::kMostPathBytes) {
        CHECK(found.empty());
        continue;
      }
      REQUIRE(found.size() == 1);
      std::string lost = name;
      lost.replace(lost.find('#'), 1, "3");
      CHECK(found[0].path == lost + "b");
    }
  }
  SUBCASE("a layer that is the copy of another") {
    for (const char* name : {"k_proj/weight", "v_proj/weight"}) {
      for (unsigned layer = 0; layer < 12; ++layer) {
        model.tensors.push_back(
            {"layers/" + std::to_string(layer) + "/" + name,
             {noise(64 * 48, 0.02F, layer + 100 * unsigned(name[0])), {64, 48}}});
      }
    }
    for (const char* name : {"q_proj/weight", "k_proj/weight", "v_proj/weight"}) {
      model.at("layers/8/" + std::string(name)) = model.at("layers/3/" + std::string(name));
    }
    const Finding found = model.only(HealthRule::kEqualTensors);
    CHECK(found.severity == Severity::kWarning);
    CHECK(found.path == "layers/3");
    CHECK(found.other == "layers/8");
  }
  SUBCASE("a norm out of range") {
    for (float& x : model.at("layers/7/norm/weight")) x *= 1e4F;
    const Finding found = model.only(HealthRule::kNorm);
    CHECK(found.path == "layers/7/norm/weight");
    CHECK(found.text == "its root mean square is 10000, and those of 11 others of its kind are 1");
  }
  SUBCASE("a vector that alone is zero") {
    model.at("layers/7/norm/weight").assign(64, 0);
    CHECK(model.only(HealthRule::kAllZero).path == "layers/7/norm/weight");
  }
  SUBCASE("equal bytes") {
    model.at("layers/8/q_proj/weight") = weight;
    const Finding found = model.only(HealthRule::kEqualTensors);
    CHECK(found.path == "layers/8/q_proj/weight");
    CHECK(found.other == "layers/3/q_proj/weight");
    CHECK(found.severity == Severity::kWarning);
  }
}

TEST_CASE("layers that lack something on purpose") {
  Model model;
  SUBCASE("the first") { model.remove("layers/0/norm/bias"); }
  SUBCASE("the last") { model.remove("layers/11/norm/bias"); }
  SUBCASE("for something of their own") {
    model.remove("layers/5/norm/weight");
    model.remove("layers/5/norm/bias");
    model.tensors.push_back({"layers/5/gate", {Floats(64, 1), {64}}});
  }
  SUBCASE("every fourth") {
    for (const char* layer : {"3", "7"}) {
      model.remove("layers/" + std::string(layer) + "/norm/bias");
    }
  }
  SUBCASE("for a tensor that is tied, without elements or not chosen, or a number") {
    model.remove("layers/5/norm/bias");
    model.present.push_back("layers/5/norm/bias");
  }
  SUBCASE("if only one layer was examined") {
    for (unsigned layer = 0; layer < 12; ++layer) {
      const std::string at = "layers/" + std::to_string(layer) + "/norm/bias";
      model.remove(at);
      if (layer != 5) model.present.push_back(at);
    }
  }
  SUBCASE("modules without tensors are numbered, too") {
    for (unsigned i = 0; i < 12; ++i) {
      if (i == 5) continue;
      const std::string at = "net/" + std::to_string(i) + "/";
      model.tensors.push_back({at + "weight", {noise(64 * 48, 0.02F, i + 1000), {64, 48}}});
      model.tensors.push_back({at + "bias", {noise(64, 0.02F, i + 2000), {64}}});
    }
  }
  SUBCASE("parameters without gradients have no moments") {
    for (unsigned i = 0; i < 12; ++i) {
      if (i == 5) continue;
      for (const char* name : {"exp_avg", "exp_avg_sq", "max_exp_avg_sq", "step"}) {
        model.tensors.push_back({"opt/" + std::to_string(i) + "/" + name, {Floats(16, 2), {16}}});
      }
    }
  }
  for (const Finding& found : model.findings()) {
    CAPTURE(found.path);
    CHECK(found.rule != HealthRule::kMissing);
  }
}

TEST_CASE("sizes are compared among tensors of one purpose") {
  Model model;
  const auto add = [&](const std::string& path, Floats values, Shape64 shape) {
    model.tensors.push_back({path, {std::move(values), std::move(shape)}});
  };
  SUBCASE("a module's vectors are of several") {
    Floats ones = noise(96, 0.1F, 7);
    for (float& x : ones) x += 1;
    for (const char* name : {"weight", "running_mean", "running_var"})
      add(std::string("bn/") + name, ones, {96});
    add("bn/bias", noise(96, 1e-3F, 8), {96});
    for (const Finding& finding : model.findings()) CHECK(finding.rule != HealthRule::kNorm);
  }
  SUBCASE("what has the shape of a kind is not of it") {
    add("embed/lora_B", noise(64 * 48, 2, 9), {64, 48});
    for (const Finding& finding : model.findings()) CHECK(finding.rule != HealthRule::kNorm);
  }
  SUBCASE("the norms of short rows are a matter of chance") {
    for (unsigned layer = 0; layer < 12; ++layer) {
      Floats narrow = noise(512 * 4, 0.02F, layer + 300);
      if (layer == 5)
        std::for_each(narrow.begin(), narrow.begin() + 1024, [](float& x) { x *= 3; });
      add("layers/" + std::to_string(layer) + "/adapter", narrow, {512, 4});
    }
    for (const Finding& finding : model.findings()) CHECK(finding.rule != HealthRule::kUnevenRows);
  }
}

TEST_CASE("what is so on purpose is no warning") {
  Model model;
  const auto add = [&](const std::string& path, Floats values, Shape64 shape) {
    model.tensors.push_back({path, {std::move(values), std::move(shape)}});
  };
  SUBCASE("a mask") {
    Floats mask(64 * 64, 0);
    for (std::size_t i = 0; i < 63; ++i) mask[i * 64 + 63] = -kInfinity;
    add("attn/causal", mask, {64, 64});
    for (const Finding& finding : model.findings()) CHECK(finding.rule != HealthRule::kInfinite);
  }
  SUBCASE("a row for padding") {
    std::fill_n(model.at("embed/weight").begin(), 48, 0.F);
    CHECK(model.only(HealthRule::kDeadRows).severity == Severity::kNote);
  }
  SUBCASE("a vocabulary that is filled up") {
    std::fill(model.at("embed/weight").end() - 10 * 48, model.at("embed/weight").end(), 0.F);
    CHECK(model.only(HealthRule::kDeadRows).severity == Severity::kNote);
  }
  SUBCASE("rows of a tensor that is like no other: few inside are a note, and so is half of it") {
    for (const std::size_t dead : {3U, 4U, 60U}) {
      Model one;
      Floats values = noise(100 * 48, 0.02F, 77);
      std::fill_n(values.begin() + 20 * 48, dead * 48, 0.F);
      one.tensors.push_back({"lone/weight", {values, {100, 48}}});
      CAPTURE(dead);
      CHECK(one.only(HealthRule::kDeadRows).severity ==
            (dead == 4 ? Severity::kWarning : Severity::kNote));
    }
  }
  SUBCASE("rows that are pruned in every layer") {
    for (unsigned layer = 0; layer < 12; ++layer) {
      std::fill_n(model.at("layers/" + std::to_string(layer) + "/q_proj/weight").begin(), 96, 0.F);
    }
    for (const Finding& finding : model.findings()) CHECK(finding.severity == Severity::kNote);
    CHECK(model.findings().at(0).text ==
          "2 of 64 rows are zero, the first is number 0, as in 12 of the 12 of its kind");
  }
  SUBCASE("a table that every layer has") {
    for (int layer = 0; layer < 12; ++layer) {
      add("layers/" + std::to_string(layer) + "/table", noise(64, 1, 5), {8, 8});
    }
    for (const Finding& finding : model.findings()) CHECK(finding.severity == Severity::kNote);
  }
  SUBCASE("an adapter that was not trained") {
    add("layers/0/lora_B/weight", Floats(256, 0), {16, 16});
    CHECK(model.only(HealthRule::kAllZero).severity == Severity::kNote);
  }
  SUBCASE("a copy of the whole model") {
    for (const auto& [path, tensor] : std::vector(model.tensors))
      model.tensors.push_back({"ema/" + path, tensor});
    CHECK(model.only(HealthRule::kEqualTensors).severity == Severity::kNote);
  }
}

// Adam's state of some parameters, with these names for the two moments.
struct Optimizer {
  std::vector<std::pair<std::string, std::pair<Floats, Shape64>>> tensors;

  Optimizer(const std::string& first, const std::string& second) {
    for (unsigned i = 0; i < 6; ++i) {
      const std::string at = "optimizer/state/" + std::to_string(i) + "/";
      Floats gradients = noise(64 * 32, 1e-3F, 20 + i);
      Floats squares;
      for (const float gradient : gradients) squares.push_back(2 * gradient * gradient);
      tensors.push_back({at + first, {std::move(gradients), {64, 32}}});
      tensors.push_back({at + second, {std::move(squares), {64, 32}}});
    }
  }
  Floats& at(std::size_t i) { return tensors[i].second.first; }
  std::vector<Finding> findings() const {
    HealthCheck check;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      check.add(i, tensors[i].first, survey_of(tensors[i].second.first, tensors[i].second.second));
    }
    return check.findings();
  }
};

TEST_CASE("tensors that only numbers name, or words of their own, are judged by their shape") {
  const auto alarms_of = [](const Model& model) {
    std::string alarms;
    for (const Finding& found : model.findings()) {
      if (found.severity == Severity::kNote) continue;
      alarms += found.path + ": " + found.text + "\n";
    }
    return alarms;
  };
  Model model;
  SUBCASE("numbers that count all tensors make no kind") {
    // A target network beside its model.
    for (const auto& tensor : Model().tensors) model.tensors.push_back(tensor);
    unsigned number = 0;
    for (auto& [name, tensor] : model.tensors) name = "p" + std::to_string(number++);
    CHECK(alarms_of(model) == "");
  }
  const std::vector<std::string> words = {"ant", "bee", "cat", "dog", "eel", "fox"};
  SUBCASE("a gain among biases") {
    unsigned seed = 0;
    for (const std::string& word : words) {
      Floats bias = noise(80, 0.005F, ++seed);
      if (word == "cat") {
        for (float& value : bias) value += 1;
      }
      model.tensors.push_back({word, {bias, {80}}});
    }
    CHECK(alarms_of(model) == "");
  }
  SUBCASE("a mask among weights, or elements of one sign") {
    // One of six, so that it would stand apart.
    bool is_mask = false;
    SUBCASE("a mask") { is_mask = true; }
    SUBCASE("magnitudes") { is_mask = false; }
    unsigned seed = 0;
    for (const std::string& word : words) {
      Floats weight = noise(56 * 56, 0.02F, ++seed);
      for (std::size_t i = 0; word == "cat" && i < weight.size(); ++i) {
        const float bit = i % 56 <= 50 ? -0.7F : 0.1F;
        weight[i] = is_mask ? bit : std::abs(weight[i]);
      }
      model.tensors.push_back({word, {weight, {56, 56}}});
    }
    CHECK(alarms_of(model).find("its mean is") == std::string::npos);
  }
  SUBCASE("rows of zeros, which the others do not have") {
    unsigned seed = 0;
    for (const std::string& word : words) {
      Floats weight = noise(56 * 56, 0.02F, ++seed);
      if (word == "fox") std::fill_n(weight.begin() + 56 * 5, 56 * 40, 0.0F);
      model.tensors.push_back({word, {weight, {56, 56}}});
    }
    CHECK(alarms_of(model).find("rows are zero") == std::string::npos);
  }
  SUBCASE("zeros here and there, which the others do not have") {
    unsigned seed = 0;
    for (const std::string& word : words) {
      Floats weight = noise(56 * 56, 0.02F, ++seed);
      for (std::size_t i = 0; word == "fox" && i < weight.size(); i += 3) weight[i] = 0;
      model.tensors.push_back({word, {weight, {56, 56}}});
    }
    CHECK(model.only(HealthRule::kZeros).path == "fox");
  }
}

TEST_CASE("rows that no step has used are zero in the moments of a table alike") {
  // Named by numbers alone: a table, its two moments, and nine matrices of its shape.
  const auto worst_of = [](const std::vector<std::size_t>& dead, bool is_in_both) {
    HealthCheck check;
    for (unsigned i = 0; i < 12; ++i) {
      Floats values = noise(64 * 48, 0.02F, i + 1);
      if (i == 4 || (is_in_both && i == 5)) {
        for (const std::size_t row : dead) {
          std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(row * 48), 48, 0.0F);
        }
      }
      check.add(i, "p" + std::to_string(i), survey_of(values, {64, 48}));
    }
    Severity worst = Severity::kNote;
    for (const Finding& finding : check.findings()) worst = std::max(worst, finding.severity);
    return worst;
  };
  CHECK(worst_of({3, 9, 20, 21, 40}, true) == Severity::kNote);
  CHECK(worst_of({60, 61, 62, 63}, true) == Severity::kNote);
  CHECK(worst_of({3, 9, 20, 21, 40}, false) == Severity::kWarning);
  CHECK(worst_of({20, 21, 22, 23, 24}, true) == Severity::kWarning);  // a part that was not written
}

TEST_CASE("zeros of both signs are one number") {
  Model model;
  Floats zeros(64 * 48, 0);
  for (std::size_t i = 0; i < zeros.size(); i += 3) zeros[i] = -0.0F;
  model.at("layers/3/q_proj/weight") = zeros;
  CHECK(model.only(HealthRule::kAllZero).severity == Severity::kWarning);
}

TEST_CASE(
    "a part that was written twice is found in a small tensor, and a table that repeats is not") {
  Model model;
  Floats weight = noise(128 * 100, 0.02F, 500);
  SUBCASE("twice") {
    std::copy_n(weight.begin() + 1000, 5000, weight.begin() + 7013);
    model.tensors.push_back({"head/weight", {weight, {128, 100}}});
    CHECK(model.only(HealthRule::kRepeated).path == "head/weight");
  }
  SUBCASE("a table") {
    for (std::size_t i = 1700; i < weight.size(); ++i) weight[i] = weight[i - 1700];
    model.tensors.push_back({"head/weight", {weight, {128, 100}}});
    for (const Finding& found : model.findings()) CHECK(found.rule != HealthRule::kRepeated);
  }
}

TEST_CASE("moments are found by their names, and without them") {
  using Names = std::pair<std::string, std::string>;
  for (const Names& names : {Names("exp_avg", "exp_avg_sq"), Names("a", "b"), Names("mu", "nu")}) {
    CAPTURE(names.first);
    CHECK(Optimizer(names.first, names.second).findings().empty());
    const auto only = [&](const Optimizer& optimizer, HealthRule rule, const std::string& name) {
      const std::vector<Finding> found = optimizer.findings();
      REQUIRE(found.size() == 1);
      CHECK(found[0].rule == rule);
      CHECK(found[0].path == "optimizer/state/2/" + name);
      return found[0].text;
    };
    Optimizer large(names.first, names.second);
    for (float& x : large.at(4)) x *= 1000;
    only(large, HealthRule::kMoments, names.first);
    CHECK(large.findings()[0].other == "optimizer/state/2/" + names.second);
    Optimizer zero(names.first, names.second);
    zero.at(4).assign(zero.at(4).size(), 0);
    only(zero, HealthRule::kZeroMoments, names.first);
    Optimizer without(names.first, names.second);
    std::fill_n(without.at(5).begin() + 3 * 32, 2 * 32, 0.F);
    CHECK(only(without, HealthRule::kMoments, names.second) ==
          "2 rows are zero, and not so in its first moment,");
    Optimizer negative(names.first, names.second);
    negative.at(5)[7] = -1e-7F;
    only(negative, HealthRule::kNegativeSquares, names.second);
  }
}

TEST_CASE("an optimizer that made no step has a note, and one that lost its state a warning") {
  Optimizer optimizer("exp_avg", "exp_avg_sq");
  for (auto& [path, tensor] : optimizer.tensors) tensor.first.assign(tensor.first.size(), 0);
  const auto only = [&] {
    const std::vector<Finding> found = optimizer.findings();
    REQUIRE(found.size() == 1);
    CHECK(found[0].rule == HealthRule::kZeroMoments);
    return found[0];
  };
  CHECK(only().severity == Severity::kNote);
  optimizer.tensors.push_back({"step", {{30}, {}}});  // of the model, which may be trained anew
  optimizer.tensors.push_back({"optimizer/count", {{0}, {}}});
  CHECK(only().severity == Severity::kNote);
  optimizer.tensors.back().second.first = {30};
  CHECK(only().severity == Severity::kWarning);
  CHECK(only().text == "all 12 moments are zero, and 30 steps are counted in");
  CHECK(only().other == "optimizer/count");
}

TEST_CASE("moments that are rounding alone, because the gradient is 0") {
  Optimizer optimizer("exp_avg", "exp_avg_sq");
  const auto add = [&](unsigned i, float size) {
    const std::string at = "optimizer/state/" + std::to_string(i) + "/";
    Floats gradients = noise(64, size, 200 + i);
    Floats squares;
    for (const float gradient : gradients) squares.push_back(2 * gradient * gradient);
    optimizer.tensors.push_back({at + "exp_avg", {gradients, {64}}});
    optimizer.tensors.push_back({at + "exp_avg_sq", {squares, {64}}});
  };
  for (unsigned i = 6; i < 30; ++i) add(i, 1e-3F);
  SUBCASE("are no finding") {
    add(30, 1e-11F);
    CHECK(optimizer.findings().empty());
    return;
  }
  add(31, 1e4F);  // too large has no such cause
  const std::vector<Finding> found = optimizer.findings();
  REQUIRE(found.size() == 2);
  CHECK(found[0].rule == HealthRule::kNorm);
  CHECK(found[0].path == "optimizer/state/31/exp_avg");
}

TEST_CASE("a variance has its mean alone as first moment") {
  HealthCheck check;
  std::uint64_t number = 0;
  for (unsigned layer = 0; layer < 6; ++layer) {
    const std::string at = "bn" + std::to_string(layer) + "/";
    Floats bias = noise(64, 0.1F, layer);
    if (layer == 3) bias[7] = 1e32F;
    Floats variance = noise(64, 1, 50 + layer);
    for (float& x : variance) x *= x;
    check.add(number++, at + "bias", survey_of(bias, {64}));
    check.add(number++, at + "running_var", survey_of(variance, {64}));
  }
  const std::vector<Finding> found = check.findings();
  REQUIRE(found.size() == 1);
  CHECK(found[0].rule == HealthRule::kEnormous);
  CHECK(found[0].path == "bn3/bias");
}

TEST_CASE("numbers of steps that few of a kind have") {
  const auto steps = [](std::size_t count, double odd, const char* name) {
    HealthCheck check;
    for (std::size_t i = 0; i < count; ++i) {
      check.add_number("optimizer/state/" + std::to_string(i) + "/" + name, i == 2 ? odd : 1000);
    }
    return check.findings();
  };
  CHECK(steps(5, 1000, "step").empty());
  REQUIRE(steps(5, 900, "step").size() == 1);
  CHECK(steps(5, 900, "step")[0].rule == HealthRule::kUnequalSteps);
  CHECK(steps(5, 900, "step")[0].severity == Severity::kWarning);
  CHECK(steps(5, 900, "step")[0].path == "optimizer/state/2/step");
  CHECK(steps(5, 900, "step")[0].text == "is 900, and 4 others of its kind are 1000");
  CHECK(steps(5, 995, "step")[0].severity == Severity::kNote);
  CHECK(steps(3, 900, "step")[0].severity == Severity::kNote);
  CHECK(steps(5, 900, "index").empty());
  CHECK(steps(5, 999.5, "step").empty());
}

TEST_CASE("numbers of one module are of several purposes") {
  HealthCheck check;
  for (const char* name : {"fake_quant_enabled", "observer_enabled", "step_size", "zero_point"}) {
    check.add(0, std::string("0/quant/") + name, survey_of({*name == 'z' ? 0.F : 1.F}, {1}));
  }
  CHECK(check.findings().empty());
}

TEST_CASE("modules may have the names of moments") {
  const auto findings = [](const std::string& path, const Floats& values, const Shape64& shape) {
    HealthCheck check;
    check.add(0, path, survey_of(values, shape));
    return check.findings();
  };
  CHECK(findings("vae/nu/weight", {-1, 2}, {2}).empty());
  const std::vector<Finding> found = findings("opt_state/0/nu/weight", {-1, 2}, {2});
  REQUIRE(found.size() == 1);
  CHECK(found[0].rule == HealthRule::kNegativeSquares);
  CHECK(found[0].text == "1 of 2 elements is negative in an average of squares, the least is -1");
}

TEST_CASE("numbers whose squares no float holds") {
  // All rows alike but for one that has half of the size, or twice.
  for (const float size : {2e-23F, 3.5e17F}) {
    Floats values(64 * 4096, size);
    std::fill_n(values.begin() + 7 * 4096, 4096, size < 1 ? size * 2 : size / 2);
    const TensorSurvey survey = survey_of(values, {64, 4096});
    CHECK(!survey.rows.loud);
    CHECK(!survey.columns.loud);
    CHECK(survey.rows.dead == 0);
  }
}

TEST_CASE("only the largest number of f16 is saturated, and quantiles are those of elements") {
  std::vector<std::uint16_t> halves(4096, 0x7bfe);  // 65472
  const auto survey = [&] {
    Surveyor surveyor(DType::kF16, Shape64{64, 64});
    surveyor.add(std::as_bytes(std::span(halves)));
    return surveyor.survey();
  };
  CHECK(survey().saturated == 0);
  halves[5] = 0xfbff;  // -65504
  CHECK(survey().saturated == 1);
  CHECK(survey_of({3}, {}).median_size == 3);
}

TEST_CASE("a complex number is infinite only if a part is") {
  const double large = 1.7e308;
  const std::vector<double> parts = {large, large, 1, 0};
  Surveyor surveyor(DType::kC128, Shape64{2});
  surveyor.add(std::as_bytes(std::span(parts)));
  CHECK(surveyor.survey().summary.infinities == 0);
  CHECK_FALSE(surveyor.survey().first_infinite);
}

TEST_CASE("numbers that are no tensors, and averages of squares") {
  HealthCheck check;
  check.add_number("optimizer/lr", kNan);
  check.add_number("best_loss", kInfinity);
  check.add(0, "bn/running_var", survey_of({1, -2, 3}, {3}));
  const std::vector<Finding> found = check.findings();
  REQUIRE(found.size() == 2);
  CHECK(found[0].rule == HealthRule::kNegativeSquares);
  CHECK(found[1].path == "optimizer/lr");
  CHECK(found[1].text == "is NaN");
}

TEST_CASE("very many numbers are kept in part, and the others counted") {
  HealthCheck check;
  for (std::size_t i = 0; i < HealthCheck::kMostNumbers + 5; ++i) {
    check.add_number("a/" + std::to_string(i), kNan);
  }
  const std::vector<Finding> found = check.findings();
  REQUIRE(found.size() == HealthCheck::kMostNumbers);
  CHECK(found.back().text == "is NaN, and so are 5 further numbers");
}

TEST_CASE("a key that holds a whole path has the kind of that path") {
  for (const char* separator : {"/", "~1"}) {
    HealthCheck check;
    for (unsigned i = 0; i < 4; ++i) {
      const std::string names[] = {"first", "second", "third", "last"};
      Floats values = noise(64 * 48, i == 2 ? 1.0F : 0.02F, i);
      check.add(i, "encoder" + (separator + names[i]) + separator + "up",
                survey_of(values, {64, 48}));
    }
    const std::vector<Finding> found = check.findings();
    REQUIRE(found.size() == 1);
    CHECK(found[0].rule == HealthRule::kNorm);
    CHECK(found[0].path == "encoder" + (separator + std::string("third")) + separator + "up");
  }
}

TEST_CASE("a long path is cut between characters") {
  // Two bytes a character: the cut falls into one.
  std::string path;
  for (int i = 0; i < 8000; ++i) path += "\u00e9";
  HealthCheck check;
  check.add(0, path + "/w", survey_of(Floats(64, kNan), {8, 8}));
  // Different in the part that is cut.
  path[4000] = path[4001] = 'x';
  check.add(1, path + "/w", survey_of(Floats(64, kNan), {8, 8}));
  const std::vector<Finding> found = check.findings();
  REQUIRE(found.size() == 2);
  CHECK(found[0].path != found[1].path);
  CHECK(found[0].path.size() <= HealthCheck::kMostPathBytes);
  CHECK(found[0].path.find("[...#") != std::string::npos);
  CHECK(found[0].path.ends_with("/w"));
  CHECK_FALSE(find_invalid_utf8(found[0].path));
}

TEST_CASE("narrow types that are cut off, and dtypes that differ") {
  HealthCheck check;
  for (int i = 0; i < 6; ++i) {
    std::vector<std::uint8_t> codes(64 * 64);
    for (std::size_t k = 0; k < codes.size(); ++k)
      codes[k] = static_cast<std::uint8_t>(k % 100 + static_cast<std::size_t>(i));
    // 448, the largest number of e4m3.
    if (i == 4) std::fill_n(codes.begin(), 100, std::uint8_t{0x7e});
    Surveyor surveyor(i == 5 ? DType::kF8E5M2 : DType::kF8E4M3FN, Shape64{64, 64});
    surveyor.add(std::as_bytes(std::span(codes)));
    check.add(static_cast<std::uint64_t>(i), "layers/" + std::to_string(i) + "/w",
              surveyor.survey());
  }
  const std::vector<Finding> found = check.findings();
  REQUIRE(found.size() == 2);
  CHECK(found[0].rule == HealthRule::kSaturated);
  CHECK(found[0].path == "layers/4/w");
  CHECK(found[1].rule == HealthRule::kMixedDTypes);
  CHECK(found[1].path == "layers/5/w");
}

TEST_CASE("a survey does not depend on the pieces") {
  Floats values = noise(300 * 40, 1, 3);
  values[4321] = kNan;
  const Shape64 shape = {300, 40};
  const TensorSurvey whole = survey_of(values, shape);
  for (const std::size_t piece : {4U, 160U, 4096U, 10000U}) {
    const TensorSurvey parts = survey_of(values, shape, piece);
    CHECK(parts.hash == whole.hash);
    CHECK(parts.first_nan == 4321);
    CHECK(parts.summary.finite == whole.summary.finite);
    CHECK(parts.norm == doctest::Approx(whole.norm));
    CHECK(parts.median_size == whole.median_size);
    CHECK(parts.rows.median == doctest::Approx(whole.rows.median));
    CHECK(parts.columns.median == doctest::Approx(whole.columns.median));
  }
  double squares = 0;
  for (const float x : values) squares += std::isnan(x) ? 0 : double{x} * x;
  CHECK(whole.norm == doctest::Approx(std::sqrt(squares)));
}

TEST_CASE("a matrix has a row for each filter, and axes of length 1 do not count") {
  const auto view = [](const Shape64& shape) { return matrix_view(shape); };
  CHECK(view({64, 32, 3, 3}).rows == 64);
  CHECK(view({64, 32, 3, 3}).columns == 288);
  CHECK(view({4, 64, 128}).rows == 256);
  CHECK(view({4, 64, 128}).columns == 128);
  CHECK(view({1, 64, 1}).rank == 1);
  CHECK_FALSE(view({1, 64, 1}).is_matrix());
  CHECK(view({}).rank == 0);
}

}  // namespace
}  // namespace espalier
