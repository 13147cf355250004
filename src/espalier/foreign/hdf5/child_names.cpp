#include "espalier/foreign/hdf5/child_names.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "espalier/base/ascii.h"
#include "espalier/base/utf8.h"

namespace espalier {
namespace {

// Lists that are too long for an attribute are cut: "layer_names0", "layer_names1", ...
constexpr std::uint32_t kMostLists = 4096;

}  // namespace

Hdf5ChildNames::Hdf5ChildNames(const Hdf5File& file, bool keeps_keys)
    : file_(file), keeps_keys_(keeps_keys) {
  if (keeps_keys) return;
  for (std::uint32_t i = 0; i < file.objects().size(); ++i) {
    const Hdf5Object& object = file.objects()[i];
    if (object.kind != Hdf5Object::Kind::kGroup) continue;
    for (const std::string_view attribute : {"layer_names", "weight_names"}) {
      add_listed(i, attribute);
      for (std::uint32_t part = 0; part < kMostLists; ++part) {
        const std::string name = std::string(attribute) + std::to_string(part);
        if (object.attribute(name) == nullptr) break;
        add_listed(i, name);
      }
    }
  }
}

void Hdf5ChildNames::add_listed(std::uint32_t group, std::string_view attribute) {
  const Hdf5Attribute* list = file_.objects()[group].attribute(attribute);
  if (list == nullptr || list->value.kind != Hdf5Value::Kind::kList) return;
  for (const Hdf5Value& item : list->value.items) {
    if (item.kind != Hdf5Value::Kind::kText) return;
    // The name of a weight is a path of groups.
    std::string_view path = as_text(item.text);
    std::uint32_t at = group;
    while (!path.empty()) {
      const std::string_view name = path.substr(0, path.find('/'));
      path.remove_prefix(std::min(path.size(), name.size() + 1));
      const auto link = file_.find_link(at, name);
      if (!link || file_.objects()[at].children[*link] == Hdf5Object::kNone) break;
      at = file_.objects()[at].children[*link];
      places_.try_emplace(at, places_.size());
    }
  }
}

std::uint64_t Hdf5ChildNames::place(std::uint32_t group, const Hdf5Child& child) const {
  const auto found = places_.find(file_.objects()[group].children[child.link]);
  return found == places_.end() ? ~std::uint64_t{0} : found->second;
}

std::vector<Hdf5Child> Hdf5ChildNames::of(std::uint32_t group) const {
  const Hdf5Object& object = file_.objects()[group];
  std::vector<GroupPart> parts;
  parts.reserve(object.links.size());
  for (std::uint32_t i = 0; i < object.links.size(); ++i) {
    parts.push_back({.key = object.links[i].name, .number = i});
  }
  const bool are_final = keeps_keys_ || order_numbers(parts) || rename(group, parts);
  std::vector<Hdf5Child> children;
  children.reserve(parts.size());
  for (const GroupPart& part : parts) children.push_back({part.key, part.number});
  if (!are_final && !places_.empty()) {
    std::stable_sort(children.begin(), children.end(), [&](const Hdf5Child& a, const Hdf5Child& b) {
      return place(group, a) < place(group, b);
    });
  }
  return children;
}

// A group of layers has no variables of its own, as layers have, and those in it say their names.
bool Hdf5ChildNames::rename(std::uint32_t group, std::vector<GroupPart>& parts) const {
  const Hdf5Object& object = file_.objects()[group];
  if (group == 0 || file_.find_link(group, "vars")) return false;
  for (GroupPart& part : parts) {
    const std::uint32_t layer = object.children[part.number];
    const auto vars = layer == Hdf5Object::kNone ? std::nullopt : file_.find_link(layer, "vars");
    const std::uint32_t variables =
        vars ? file_.objects()[layer].children[*vars] : Hdf5Object::kNone;
    if (variables == Hdf5Object::kNone) continue;
    if (const auto text = file_.objects()[variables].text("name")) part.layer = *text;
  }
  return name_layers(parts);
}

}  // namespace espalier
