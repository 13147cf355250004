// The layouts of key maps in memory, by one thread, beside memcpy of the same bytes.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "command.h"
#include "report.h"

#include "espalier/key_map.h"
#include "espalier/map/key_map_parts.h"
#include "espalier/map/plan.h"
#include "espalier/map/target_recipe.h"

namespace espalier::bench {
namespace {

// The weight of a large model: 4096 x 11008.
constexpr std::uint64_t kRows = 4096;
constexpr std::uint64_t kColumns = 11008;

struct Layout {
  const char* name;
  const char* rule;
};

constexpr Layout kLayouts[] = {
    {"reshape", "w [a b] <-> w [(a b)]"},
    {"rotary_rows", "w [(h 2 p) n] <-> w [(h p 2) n]"},
    {"transpose", "w [a b] <-> w [b a]"},
    {"interleave", "w [a (2 f)] <-> w [a (f 2)]"},
};

void time_layout(Report& report, const Layout& layout, DType dtype, std::uint64_t repeat) {
  const auto map =
      must(KeyMap::parse(R"({"espalier_map": 1, "rules": [")" + std::string(layout.rule) + "\"]}"));
  MapPlanOptions options;
  options.sizes["p"] = 64;
  const auto plan = must(MapPlan::make(
      map, {{.name = "w", .is_tensor = true, .dtype = dtype, .shape = {kRows, kColumns}}},
      options));
  const MapTarget& target = plan.targets().front();
  const TargetRecipe recipe = TargetRecipe::of(plan, target);
  const std::vector<std::byte> source(static_cast<std::size_t>(recipe.bytes()), std::byte{1});
  std::vector<std::byte> made(source.size(), std::byte{2});
  const TargetRecipe::Window all{0, recipe.bytes()};
  Samples copied_ns;
  Samples made_ns;
  for (std::uint64_t i = 0; i < repeat; ++i) {
    auto start = Clock::now();
    std::memcpy(made.data(), source.data(), source.size());
    copied_ns.push_back(nanoseconds_since(start));
    start = Clock::now();
    for (const TargetRecipe::Part& part : recipe.parts()) {
      part.copy.copy(all, source.data(), all, made.data());
    }
    made_ns.push_back(nanoseconds_since(start));
  }
  const auto speed = [&](Samples& samples) {
    const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
    std::nth_element(samples.begin(), middle, samples.end());
    return static_cast<double>(recipe.bytes()) / static_cast<double>(*middle);
  };
  const std::string name = std::string(layout.name) + '_' + std::string(dtype_name(dtype));
  report.with(name + "_gb_per_s", speed(made_ns));
  report.with(name + "_memcpy_gb_per_s", speed(copied_ns));
}

}  // namespace

void pieces(const Options& options) {
  Report report("pieces");
  for (const Layout& layout : kLayouts) {
    for (const DType dtype : {DType::kU8, DType::kBF16, DType::kF32, DType::kF64}) {
      time_layout(report, layout, dtype, options.repeat);
    }
  }
  report.print();
}

}  // namespace espalier::bench
