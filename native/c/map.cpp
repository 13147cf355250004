// Key maps.
#include <algorithm>
#include <map>
#include <string>

#include "c/handles.h"

#include "espalier/key_map.h"
#include "espalier/mapped_checkpoint.h"

namespace espalier::c {
namespace {

Result<MappedOptions> map_options_of(const espalier_map_options& given) {
  MappedOptions options;
  MapPlanOptions& plan = options.lift.plan;
  plan.reverse = given.reverse != 0;
  plan.partial = given.partial != 0;
  if (given.config != nullptr) {
    auto numbers = numbers_of(given.config);
    if (!numbers) return propagate(numbers);
    plan.config = std::move(*numbers);
    auto adapter = adapter_settings(given.config);
    if (!adapter) return propagate(adapter);
    options.lift.adapter = std::move(*adapter);
  }
  auto ok = Arguments()
                .need({given.names, given.number_count})
                .need({given.numbers, given.number_count})
                .check();
  if (!ok) return propagate(ok);
  std::map<std::string, double> numbers;
  for (std::size_t i = 0; i < given.number_count; ++i) {
    if (ok = Arguments().need(given.names[i]).check(); !ok) return propagate(ok);
    numbers[given.names[i]] = given.numbers[i];
  }
  if (ok = set_numbers(numbers, plan); !ok) return propagate(ok);
  if (given.like != nullptr) options.like = given.like->file;
  return options;
}

}  // namespace
}  // namespace espalier::c

using namespace espalier;
using espalier::c::Arguments;
using espalier::c::guarded;

espalier_text espalier_known_map(const char* name) {
  if (name == nullptr) return {};
  const auto all = known_maps();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const KnownMap& each) { return each.name == name; });
  return found == all.end() ? espalier_text{} : c::text_of(found->text);
}

espalier_status espalier_map(const espalier_file* file, const char* map, size_t map_size,
                             const espalier_map_options* options, espalier_file** out,
                             espalier_error** error) {
  return guarded(
      error, Arguments().need(file).need({map, map_size}).result(out), [&]() -> Result<void> {
        const auto given = c::take(options);
        if (!given) return propagate(given);
        const auto how = c::map_options_of(*given);
        if (!how) return propagate(how);
        const auto parsed = KeyMap::parse({map, map_size});
        if (!parsed) return propagate(parsed);
        const auto mapped = MappedCheckpoint::make(*parsed, {{.file = file->file}}, *how);
        if (!mapped) return propagate(mapped);
        if (given->unchecked == 0) {
          if (auto ok = mapped->check(c::flag_of(given->cancel)); !ok) return ok;
        }
        auto made = mapped->open();
        if (!made) return propagate(made);
        *out = new espalier_file{std::move(*made)};
        return {};
      });
}
