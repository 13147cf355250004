#include "espalier/map/adapter_parameters.h"

#include "espalier/map/map_error.h"

namespace espalier {

AdapterParameters::AdapterParameters(const AdapterModules& found, std::span<const MapLeaf> leaves,
                                     std::span<const MapAdapted> adapted)
    : found_(found), place_(found.places().front()), leaves_(leaves) {
  for (const MapAdapted& each : adapted) adapted_.insert(each.module);
}

Result<std::vector<MapLeaf>> AdapterParameters::read() {
  std::vector<MapLeaf> parameters;
  for (const std::uint32_t number : found_.parameters()) {
    parameters.push_back(leaves_[number]);
    if (auto ok = read(parameters.back(), leaves_[number].name); !ok) return propagate(ok);
  }
  return parameters;
}

Result<void> AdapterParameters::read(MapLeaf& leaf, const std::string& stored) {
  const std::string& prefix = place_.read.prefix;
  std::string& name = leaf.name;
  name.erase(0, found_.prefix().size());
  const std::string label = label_with_end(name);
  std::string_view rest = without_label(name);
  had_prefix_.push_back(rest.starts_with(prefix));
  if (had_prefix_.back()) rest.remove_prefix(prefix.size());
  name = label + std::string(rest);
  had_base_layer_.push_back(false);
  if (!place_.read.are_peft) return {};
  for (const std::string_view kept : {".modules_to_save.", ".original_module."}) {
    if (name.find(kept) == std::string::npos) continue;
    return fail(ErrorCode::kMapUnmatched, in_quotes(stored) +
                                              " is in a state_dict of PEFT alone; save the adapter "
                                              "with save_pretrained(), and map that");
  }
  const std::size_t last = name.rfind('.');
  had_base_layer_.back() = last != std::string::npos && last > kBaseLayer.size() &&
                           std::string_view(name).substr(0, last).ends_with(kBaseLayer);
  if (had_base_layer_.back()) name.erase(last - kBaseLayer.size(), kBaseLayer.size());
  return {};
}

void AdapterParameters::renumber(std::uint32_t& number) const {
  if (number != MapPiece::kZeros) number = found_.parameters()[number];
}

void AdapterParameters::rewrite(MapTarget& target) const {
  const bool is_kept_so = target.rule == MapTarget::kKept && target.source != MapPiece::kZeros &&
                          !had_prefix_[target.source];
  bool has_base_layer = false;
  for (const std::uint32_t source : target.sources()) {
    has_base_layer = has_base_layer || had_base_layer_[source];
  }
  renumber(target.source);
  for (MapPiece& piece : target.pieces) renumber(piece.source);
  for (MapTerm& term : target.terms) {
    for (MapOperand& operand : term.operands) renumber(operand.source);
  }
  if (is_kept_so) return;
  target.name = written(target.name, has_base_layer);
  for (std::string& tied : target.tied) tied = written(tied, has_base_layer);
}

std::string AdapterParameters::written(const std::string& name, bool has_base_layer) const {
  std::string base(without_label(name));
  const std::size_t last = base.rfind('.');
  if (has_base_layer && place_.write && place_.write->are_peft && last != std::string::npos &&
      adapted_.contains(std::string_view(name).substr(0, name.size() - base.size() + last))) {
    base.insert(last, kBaseLayer);
  }
  return label_with_end(name) + (place_.write ? place_.write->prefix : std::string()) + base;
}

}  // namespace espalier
