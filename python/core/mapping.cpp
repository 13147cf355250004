// espalier._core.Mapped: what a key map makes of checkpoints.
#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.h"
#include "errors.h"
#include "file.h"
#include "interruptible.h"
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "espalier/key_map.h"
#include "espalier/map/adapter.h"
#include "espalier/map/plan.h"
#include "espalier/mapped_checkpoint.h"
#include "espalier/save.h"
#include "espalier/save_foreign.h"
#include "files/map/map_targets.h"

namespace espalier::python {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

std::optional<MapRest> rest_of(const std::optional<std::string>& name) {
  if (!name) return std::nullopt;
  if (*name == "error") return MapRest::kError;
  if (*name == "keep") return MapRest::kKeep;
  if (*name == "drop") return MapRest::kDrop;
  throw nb::value_error("not what becomes of others");  // The package checks it.
}

// None for what no rule took.
nb::object rule_of(std::uint32_t rule) {
  return rule == MapTarget::kKept ? nb::object(nb::none()) : nb::cast(rule + 1);
}

class Mapped {
 public:
  // Inputs are (File, label, name).
  static Mapped make(const std::string& text,
                     const std::vector<std::tuple<nb::object, std::string, std::string>>& files,
                     bool reverse, bool partial, const std::map<std::string, double>& numbers,
                     const std::vector<std::string>& configs, const std::string& at,
                     const std::vector<std::string>& along,
                     const std::vector<std::string>& param_order, bool along_scaled,
                     const std::vector<std::string>& lora, const std::optional<std::string>& rest,
                     const nb::object& like, std::uint64_t memory, unsigned threads,
                     const std::string& where) {
    std::vector<MapInput> inputs;
    for (const auto& [file, label, name] : files) {
      inputs.push_back({checkpoint_of(file), label, name});
    }
    MappedOptions options;
    if (!like.is_none()) options.like = checkpoint_of(like);
    MapPlanOptions& plan = options.lift.plan;
    plan.reverse = reverse;
    plan.partial = partial;
    plan.rest = rest_of(rest);
    for (const std::string& config : configs) {
      auto numbers = must(numbers_of(config), "config");
      options.lift.adapter =
          either(std::move(options.lift.adapter), must(adapter_settings(config), "config"));
      plan.config =
          plan.config ? either(std::move(plan.config), std::move(numbers)) : std::move(numbers);
    }
    must(set_numbers(numbers, plan));
    options.lift.at = at;
    options.lift.along = along;
    options.lift.param_order = param_order;
    options.lift.scales_moments = along_scaled;
    options.lift.lora = lora;
    options.targets.memory = memory;
    options.targets.threads = threads;
    const nb::gil_scoped_release released;
    auto map = KeyMap::parse(text);
    auto made = map ? MappedCheckpoint::make(*map, std::move(inputs), options)
                    : Result<MappedCheckpoint>(propagate(map));
    const nb::gil_scoped_acquire acquired;
    return Mapped(must(std::move(made), where), where);
  }

  // Of data that must be equal or zero.
  void check() const {
    auto result = run_interruptibly(
        nb::none(), [&](const Progress&, const std::atomic<bool>& cancel) -> Result<void> {
          return mapped_.check(&cancel);
        });
    must(std::move(result), where_);
  }

  // Of what check() compared: numbers other than 0 where the map says "pad".
  std::uint64_t lost_elements() const { return mapped_.targets().lost_elements(); }
  // Of what was read so far: numbers that became infinite.
  std::uint64_t overflows() const { return mapped_.targets().rounding().overflows; }

  nb::object open() const {
    auto file = [&] {
      const nb::gil_scoped_release released;
      return mapped_.open();
    }();
    return make_file(must(std::move(file), where_), where_);
  }

  // (name, further names, rule or None, work, dtype or None, shape, names of sources)
  nb::list targets() const {
    const MapPlan& plan = mapped_.plan();
    nb::list targets;
    for (const MapTarget& target : plan.targets()) {
      nb::list sources;
      for (const std::uint32_t leaf : target.sources()) sources.append(plan.leaves()[leaf].name);
      const bool is_tensor =
          target.source == MapPiece::kZeros || plan.leaves()[target.source].is_tensor;
      nb::list shape;
      for (const std::uint64_t length : target.shape) shape.append(length);
      targets.append(nb::make_tuple(
          target.name, nb::tuple(nb::cast(target.tied)), rule_of(target.rule),
          std::string(work_name(target.work)),
          is_tensor ? nb::cast(static_cast<int>(target.dtype)) : nb::object(nb::none()),
          nb::tuple(shape), nb::tuple(sources)));
    }
    return targets;
  }

  nb::dict dropped() const {
    nb::dict dropped;
    for (const auto& [leaf, rule] : mapped_.plan().dropped()) {
      dropped[mapped_.plan().leaves()[leaf].name.c_str()] = rule_of(rule);
    }
    return dropped;
  }

  // JSON, if an adapter is mapped.
  std::optional<std::string> lora() const {
    const auto& adapter = mapped_.plan().adapter();
    return adapter ? std::optional(adapter_config(*adapter)) : std::nullopt;
  }

  std::vector<std::string> map_notes() const { return mapped_.plan().notes(); }

  std::vector<std::string> labels() const {
    std::vector<std::string> labels;
    for (auto& output : must(mapped_.outputs(), where_)) labels.push_back(std::move(output.label));
    return labels;
  }

  // Saves what is at the key path `at`. Tells what a safetensors file cannot hold, which is left
  // out with `drops` and an error without.
  std::string save(const nb::bytes& name, const std::string& label, const std::string& at,
                   bool safetensors, bool drops, int compression, bool sync, bool replace,
                   unsigned threads, const nb::object& progress) const {
    const std::string path = path_of(name);
    SaveOptions options;
    options.metadata = must(mapped_.metadata(), where_);
    options.compression_level = compression;
    options.sync = sync;
    options.replace = replace;
    options.threads = threads;
    options.unrepresentable = drops ? Unrepresentable::kDrop : Unrepresentable::kError;
    std::string lost;
    const auto outputs = must(mapped_.outputs(), where_);
    for (const auto& output : outputs) {
      if (output.label != label) continue;
      const Value& state = *must(output.state.at(at), where_);
      auto result = run_interruptibly(
          progress, [&](const Progress& tell, const std::atomic<bool>& cancel) -> Result<void> {
            options.progress = tell;
            options.cancel = &cancel;
            if (!safetensors) {
              return espalier::save(path, state, options);
            }
            auto saved = save_safetensors(path, state, options);
            if (!saved) return propagate(saved);
            lost = saved->empty() ? std::string() : saved->to_string();
            return {};
          });
      must(std::move(result), path);
    }
    return lost;
  }

 private:
  Mapped(MappedCheckpoint mapped, std::string where)
      : mapped_(std::move(mapped)), where_(std::move(where)) {}

  MappedCheckpoint mapped_;
  std::string where_;
};

}  // namespace

void bind_mapping(nb::module_& module) {
  module.def("key_maps", [] {
    std::vector<std::tuple<std::string, std::string>> maps;
    for (const KnownMap& map : known_maps()) maps.emplace_back(map.name, map.text);
    return maps;
  });

  nb::class_<Mapped>(module, "Mapped")
      .def_static("make", &Mapped::make, "text"_a, "files"_a, "reverse"_a, "partial"_a, "numbers"_a,
                  "configs"_a, "at"_a, "along"_a, "param_order"_a, "along_scaled"_a, "lora"_a,
                  "rest"_a.none(), "like"_a.none(), "memory"_a, "threads"_a, "where"_a,
                  nb::call_guard<Call>())
      .def_prop_ro("lost_elements", &Mapped::lost_elements)
      .def_prop_ro("overflows", &Mapped::overflows)
      .def("check", &Mapped::check, nb::call_guard<Call>())
      .def("open", &Mapped::open, nb::call_guard<Call>(), nb::sig("def open(self) -> File"))
      .def("targets", &Mapped::targets,
           nb::sig("def targets(self) -> list[tuple[str, tuple[str, ...], int | None, str, "
                   "int | None, tuple[int, ...], tuple[str, ...]]]"))
      .def("dropped", &Mapped::dropped, nb::sig("def dropped(self) -> dict[str, int | None]"))
      .def("labels", &Mapped::labels)
      .def("map_notes", &Mapped::map_notes)
      .def("lora", &Mapped::lora)
      .def("save", &Mapped::save, "path"_a, "label"_a, "at"_a, "safetensors"_a, "drops"_a,
           "compression"_a, "sync"_a, "replace"_a, "threads"_a, "progress"_a.none(),
           nb::call_guard<Call>());
}

}  // namespace espalier::python
