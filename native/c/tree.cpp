// Looking around in trees.
#include <cstdint>
#include <functional>
#include <limits>

#include "c/handles.h"

#include "espalier/format/access.h"

namespace espalier::c {

static_assert(ESPALIER_PLACEHOLDER == static_cast<int>(Kind::kPlaceholder));
static_assert(ESPALIER_NULL == static_cast<int>(Kind::kNull));

Result<NodeRef> node_of(const espalier_file* file, espalier_node node) {
  const Catalog& catalog = file->file.checkpoint().catalog();
  if (node >= catalog.tables().nodes.size()) {
    return fail(ErrorCode::kInvalidArgument, "the file has no node " + std::to_string(node));
  }
  return NodeRef(&catalog, node);
}

Threads threads_of(std::uint32_t count, espalier_run run, void* context) {
  if (run == nullptr) return count;
  return {count, [run, context](unsigned calls, const std::function<void()>& work) {
            auto* const called = const_cast<std::function<void()>*>(&work);
            run(
                context, calls, [](void* own) { (*static_cast<std::function<void()>*>(own))(); },
                called);
          }};
}

Progress progress_of(espalier_progress progress, void* context) {
  if (progress == nullptr) return {};
  return [=](std::uint64_t done, std::uint64_t total) { progress(context, done, total); };
}

namespace {

espalier_node_info info_of(const NodeRef& node) {
  espalier_node_info info = {};
  info.kind = static_cast<std::uint32_t>(node.kind());
  info.child_count = node.size();
  if (node.size() > 0) info.first_child = node.child(0).number();
  if (const auto label = node.label()) {
    info.has_label = 1;
    info.label = text_of(*label);
  }
  if (const auto boolean = node.as_bool()) info.integer = *boolean ? 1 : 0;
  if (const auto integer = node.as_int64()) info.integer = *integer;
  if (const auto real = node.as_double()) info.real = *real;
  if (const auto complex = node.as_complex()) {
    info.real = complex->real();
    info.imaginary = complex->imag();
  }
  if (const auto text = node.as_string()) info.text = text_of(*text);
  if (const auto bytes = node.as_bytes()) info.text = text_of(*bytes);
  if (node.kind() == Kind::kBigInt) {
    const Tables& tables = node.catalog().tables();
    const NodeRecord& record = tables.nodes[node.number()];
    info.text = text_of(tables.bytes.subspan(record.value, record.count));
  }
  return info;
}

}  // namespace
}  // namespace espalier::c

using namespace espalier;
using espalier::c::Arguments;
using espalier::c::guarded;

espalier_node espalier_state(const espalier_file* file) {
  return file == nullptr ? 0 : file->file.state().number();
}

espalier_node espalier_metadata(const espalier_file* file) {
  return file == nullptr ? 0 : file->file.metadata().number();
}

espalier_status espalier_at(const espalier_file* file, espalier_node from, const char* path,
                            espalier_node* out, espalier_error** error) {
  return guarded(error, Arguments().need(file).need(path).need(out), [&]() -> Result<void> {
    const auto root = c::node_of(file, from);
    if (!root) return propagate(root);
    const auto node = root->at(path);
    if (!node) return propagate(node);
    *out = node->number();
    return {};
  });
}

espalier_status espalier_get_node(const espalier_file* file, espalier_node node,
                                  espalier_node_info* info, espalier_error** error) {
  return guarded(error, Arguments().need(file).need(info), [&]() -> Result<void> {
    const auto found = c::node_of(file, node);
    return found ? c::fill(info, c::info_of(*found)) : propagate(found);
  });
}

espalier_status espalier_get_key(const espalier_file* file, espalier_node parent, uint32_t i,
                                 espalier_key* key, espalier_error** error) {
  return guarded(error, Arguments().need(file).need(key), [&]() -> Result<void> {
    const auto node = c::node_of(file, parent);
    if (!node) return propagate(node);
    if (i >= node->size()) {
      return fail(ErrorCode::kInvalidArgument, "the node has no child " + std::to_string(i));
    }
    const KeyView view = node->key(i);
    espalier_key filled = {};
    filled.is_integer = view.is_int ? 1 : 0;
    filled.integer = view.is_int ? view.integer : 0;
    if (!view.is_int) filled.text = c::text_of(view.text);
    return c::fill(key, filled);
  });
}

espalier_status espalier_find(const espalier_file* file, const char* pattern, espalier_list** out,
                              espalier_error** error) {
  return guarded(error, Arguments().need(file).need(pattern).result(out), [&]() -> Result<void> {
    auto found = file->file.find(pattern);
    if (!found) return propagate(found);
    *out = new espalier_list{std::move(*found)};
    return {};
  });
}

size_t espalier_list_size(const espalier_list* list) {
  return list == nullptr ? 0 : list->nodes.size();
}

espalier_node espalier_list_node(const espalier_list* list, size_t i) {
  return i < espalier_list_size(list) ? list->nodes[i].node.number() : 0;
}

espalier_text espalier_list_path(const espalier_list* list, size_t i) {
  return i < espalier_list_size(list) ? c::text_of(list->nodes[i].path) : espalier_text{};
}

void espalier_list_free(espalier_list* list) { delete list; }
