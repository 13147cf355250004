#include "espalier/foreign/tensorflow/object_graph.h"

#include <algorithm>
#include <utility>

#include "espalier/base/counted.h"
#include "espalier/foreign/tensorflow/wire.h"

namespace espalier {
namespace {

class GraphReader {
 public:
  explicit GraphReader(const Limits& limits) : limits_(limits) {}

  Result<ObjectGraph> run(ByteSpan bytes) {
    constexpr std::uint64_t kNodes = 1 << 1;
    const bool is_read = read_fields(bytes, kNodes, graph_.unknown_fields,
                                     [&](const WireField& field, ByteSpan contents) {
                                       if (field.number != 1) return FieldUse::kUnknown;
                                       const bool is_node = count() && read_node(contents);
                                       return take(field, is_node);
                                     });
    if (count_ > limits_.nodes) {
      return fail(ErrorCode::kLimitExceeded, "the object graph has more than the " +
                                                 counted(limits_.nodes, "node") +
                                                 " that readers accept (Limits::nodes)");
    }
    if (!is_read || graph_.nodes.empty() || !are_nodes_there()) {
      return fail(ErrorCode::kForeignInvalid, "it is no graph of objects");
    }
    return std::move(graph_);
  }

 private:
  static FieldUse take(const WireField& field, bool is_read) {
    return field.type == WireType::kBytes && is_read ? FieldUse::kTaken : FieldUse::kBad;
  }

  static FieldUse take_text(const WireField& field, ByteSpan contents, std::string_view& text) {
    text = as_text(contents);
    return take(field, true);
  }

  static FieldUse take_node(const WireField& field, std::uint32_t& node) {
    // A negative one is no node, and is not cut to one.
    if (field.value > 0x7FFFFFFF) return FieldUse::kBad;
    return take_number(field, node);
  }

  bool count() { return ++count_ <= limits_.nodes; }

  bool read_node(ByteSpan bytes) {
    constexpr std::uint64_t kLists = 1 << 1 | 1 << 2 | 1 << 3;
    ObjectGraph::Node node;
    const bool is_read = read_fields(
        bytes, kLists, graph_.unknown_fields, [&](const WireField& field, ByteSpan contents) {
          switch (field.number) {
            case 1:
              graph_.children.emplace_back();
              return take(field, count() && read_child(contents, graph_.children.back()));
            case 2:
              graph_.attributes.emplace_back();
              return take(field, count() && read_attribute(contents, graph_.attributes.back()));
            case 3:
              graph_.slots.emplace_back();
              return take(field, count() && read_slot(contents, graph_.slots.back()));
            case 4:
              return take(field, read_saver(contents, node));
            case 5:  // Whether it has values, which older files do not say.
              return take(field, true);
            default:
              return FieldUse::kUnknown;
          }
        });
    node.children_end = graph_.children.size();
    node.attributes_end = graph_.attributes.size();
    node.slots_end = graph_.slots.size();
    graph_.nodes.push_back(node);
    return is_read;
  }

  bool read_child(ByteSpan bytes, ObjectGraph::Child& child) {
    return read_fields(bytes, 0, graph_.unknown_fields,
                       [&](const WireField& field, ByteSpan contents) {
                         if (field.number == 1) return take_node(field, child.node);
                         if (field.number == 2) return take_text(field, contents, child.name);
                         return FieldUse::kUnknown;
                       });
  }

  bool read_attribute(ByteSpan bytes, ObjectGraph::Attribute& attribute) {
    return read_fields(bytes, 0, graph_.unknown_fields,
                       [&](const WireField& field, ByteSpan contents) {
                         switch (field.number) {
                           case 1:
                             return take_text(field, contents, attribute.name);
                           case 2:
                             return take_text(field, contents, attribute.full_name);
                           case 3:
                             return take_text(field, contents, attribute.key);
                           case 4:  // Whether it may be missing, in files of some versions.
                             return FieldUse::kTaken;
                           default:
                             return FieldUse::kUnknown;
                         }
                       });
  }

  bool read_slot(ByteSpan bytes, ObjectGraph::Slot& slot) {
    return read_fields(bytes, 0, graph_.unknown_fields,
                       [&](const WireField& field, ByteSpan contents) {
                         switch (field.number) {
                           case 1:
                             return take_node(field, slot.original);
                           case 2:
                             return take_text(field, contents, slot.name);
                           case 3:
                             return take_node(field, slot.node);
                           default:
                             return FieldUse::kUnknown;
                         }
                       });
  }

  bool read_saver(ByteSpan bytes, ObjectGraph::Node& node) {
    std::string_view object;
    return read_fields(bytes, 0, graph_.unknown_fields,
                       [&](const WireField& field, ByteSpan contents) {
                         if (field.number == 1) return take_text(field, contents, node.saver);
                         if (field.number == 2) return take_text(field, contents, object);
                         return FieldUse::kUnknown;
                       });
  }

  bool are_nodes_there() const {
    const auto is_there = [&](std::uint32_t node) { return node < graph_.nodes.size(); };
    return std::all_of(graph_.children.begin(), graph_.children.end(),
                       [&](const auto& child) { return is_there(child.node); }) &&
           std::all_of(graph_.slots.begin(), graph_.slots.end(), [&](const auto& slot) {
             return is_there(slot.original) && is_there(slot.node);
           });
  }

  const Limits& limits_;
  ObjectGraph graph_;
  std::uint64_t count_ = 0;  // of all that it has
};

}  // namespace

Result<ObjectGraph> read_object_graph(ByteSpan bytes, const Limits& limits) {
  return GraphReader(limits).run(bytes);
}

}  // namespace espalier
