// The part of PickleTree that says what objects become.
#include <algorithm>
#include <string>
#include <utility>

#include "espalier/foreign/numpy/numpy_type.h"
#include "espalier/foreign/pickle/pickle_tree.h"

namespace espalier {
namespace {

constexpr std::uint32_t kMaxStateNesting = 32;

// numpy's modules were renamed twice.
bool is_numpy(PickleGlobal global, std::string_view module, std::string_view name) {
  if (global.name != name || !global.module.starts_with("numpy.")) return false;
  std::string_view rest = global.module.substr(6);
  if (rest.starts_with("_core.")) rest.remove_prefix(1);
  return rest.starts_with("core.") && rest.substr(5) == module;
}

// The class of numpy's scalars of a type, such as "f4".
std::string numpy_scalar(std::string_view code) {
  constexpr std::pair<char, std::string_view> kNumbers[] = {
      {'i', "int"}, {'u', "uint"}, {'f', "float"}, {'c', "complex"}};
  constexpr std::pair<char, std::string_view> kOthers[] = {
      {'b', "bool"}, {'M', "datetime64"}, {'m', "timedelta64"},
      {'U', "str_"}, {'S', "bytes_"},     {'V', "void"}};
  std::string name = "numpy.";
  for (const auto& [kind, word] : kNumbers) {
    const auto type = code.starts_with(kind) ? parse_numpy_type(code) : std::nullopt;
    if (type) return name.append(word) + std::to_string(type->bytes * 8);
  }
  for (const auto& [kind, word] : kOthers) {
    if (code.starts_with(kind)) name += word;
  }
  return name;
}

}  // namespace

PickleShape PickleTree::shape_of(Node node) {
  return node.shape != 0 ? shapes_[node.shape - 1] : shape_of_ref(node.ref);
}

PickleShape PickleTree::shape_of_ref(PickleRef ref) {
  if (ref.is_literal()) return literal(ref);
  const std::uint32_t known = known_[ref.number()];
  if (known != 0) return shapes_[known - 1];
  // A parameter of a parameter of a parameter, ten thousand times, would exhaust the stack.
  if (++nesting_ > kMaxStateNesting) {
    --nesting_;
    return refuse("calls in this pickle are nested too deep");
  }
  const PickleShape shape = shape_object(ref);
  --nesting_;
  // Those that have made fields or texts must be made once.
  const bool is_large = espalier::is_container(shape.kind) && graph_.element_count(ref) > 16;
  if (shape.from == From::kFields || shape.from == From::kNodes || shape.from == From::kText ||
      is_large) {
    shapes_.push_back(shape);
    known_[ref.number()] = static_cast<std::uint32_t>(shapes_.size());
  }
  return shape;
}

PickleShape PickleTree::shape_object(PickleRef ref) {
  switch (graph_.type(ref)) {
    case PickleType::kTuple:
      return elements(Kind::kTuple, ref, {});
    case PickleType::kList:
      return elements(Kind::kList, ref, {});
    case PickleType::kSet:
      return elements(Kind::kSet, ref, {});
    case PickleType::kFrozenSet:
      return elements(Kind::kSet, ref, "frozenset");
    case PickleType::kDict:
      return dict(ref, From::kItems, {});
    case PickleType::kGlobal: {
      const PickleGlobal global = graph_.global(ref);
      if (const auto shape = shape_global(global)) return *shape;
      return text(name_of(global), kGlobalLabel);
    }
    case PickleType::kPersistent:
      return shape_persistent(ref);
    case PickleType::kCall: {
      const PickleCall call = graph_.call(ref);
      const auto function = global_of(call.callable);
      // Calls of what another call returned: getattr(module, "name")(...).
      if (!function) return shape_opaque(ref, {"pickle", "call"}, call.args);
      if (!is_tuple(call.args)) return shape_opaque(ref, *function, call.args);
      const auto args = tuple(call.args);
      count_steps(args.size());
      if (const auto shape = shape_call(*function, ref, args)) return whole(*shape, ref);
      if (const auto shape = shape_python(*function, ref, args)) return whole(*shape, ref);
      if (const auto shape = shape_numpy(*function, ref, args)) return whole(*shape, ref);
      return shape_opaque(ref, *function, call.args);
    }
    case PickleType::kNew: {
      const PickleCall call = graph_.call(ref);
      const auto cls = global_of(call.callable);
      if (!cls) return shape_opaque(ref, {"pickle", "new"}, call.args);
      if (!is_tuple(call.args)) return shape_opaque(ref, *cls, call.args);
      if (const auto shape = shape_call(*cls, ref, tuple(call.args))) {
        return whole(*shape, ref);
      }
      return shape_instance(ref, *cls, call.args);
    }
    default:
      return {};
  }
}

std::optional<PickleShape> PickleTree::shape_call(PickleGlobal, PickleRef,
                                                  std::span<const PickleRef>) {
  return std::nullopt;
}
std::optional<PickleShape> PickleTree::shape_global(PickleGlobal) { return std::nullopt; }
PickleShape PickleTree::shape_persistent(PickleRef) {
  return refuse("the pickle refers to an object outside it that is not a torch storage");
}

// The types of Python itself, with the labels that the Python package gives them.
std::optional<PickleShape> PickleTree::shape_python(PickleGlobal function, PickleRef ref,
                                                    std::span<const PickleRef> args) {
  const auto container_of = [&](Kind kind, std::string_view label) -> std::optional<PickleShape> {
    if (args.empty()) return elements(kind, ref, label);  // what was appended to it
    if (args.size() != 1) return std::nullopt;
    const PickleType type = graph_.type(args[0]);
    const bool is_sequence = type == PickleType::kTuple || type == PickleType::kList ||
                             type == PickleType::kSet || type == PickleType::kFrozenSet;
    if (!is_sequence || graph_.has_elements(ref) || !is_settled(args[0], ref)) return std::nullopt;
    return elements(kind, args[0], label);
  };
  if (function.module == "collections") {
    const auto set_items = [&](std::string_view label) {
      PickleShape shape = dict(ref, From::kSetItems, label);
      shape.has_state = true;  // keep_attributes() does
      return shape;
    };
    if (function.name == "OrderedDict" && args.empty()) return set_items("collections.OrderedDict");
    if (function.name == "OrderedDict" && args.size() == 1 && are_pairs(args[0], ref)) {
      PickleShape shape = dict(args[0], From::kPairs, "collections.OrderedDict");
      shape.has_state = true;
      return shape;
    }
    if (function.name == "Counter" && args.size() <= 1) {
      if (args.empty()) return set_items("collections.Counter");
      if (graph_.type(args[0]) == PickleType::kDict && is_settled(args[0], ref)) {
        return dict(args[0], From::kItems, "collections.Counter");
      }
    }
    if (function.name == "defaultdict" && args.size() <= 1) {
      if (args.empty() || graph_.type(args[0]) == PickleType::kNone) {
        return set_items("collections.defaultdict");
      }
      const auto factory = global_of(args[0]);
      if (!factory) return std::nullopt;
      const std::string name(module_of_global(*factory) == "builtins"
                                 ? std::string(factory->name)
                                 : std::string(name_of(*factory)));
      return set_items(keep("collections.defaultdict[" + name + "]"));
    }
    const bool is_empty_first =
        args.empty() ||
        (!args[0].is_literal() && !graph_.has_elements(args[0]) &&
         (graph_.type(args[0]) == PickleType::kTuple || graph_.type(args[0]) == PickleType::kList));
    if (function.name == "deque" && args.size() <= 2 && is_empty_first) {
      const auto longest = args.size() == 2 ? integer(args[1]) : std::nullopt;
      if (args.size() == 2 && !longest) return std::nullopt;
      // Of more elements than it may have, Python keeps the last.
      const bool is_full = longest && (*longest < 0 || graph_.element_count(ref) >
                                                           static_cast<std::uint64_t>(*longest));
      if (is_full) return std::nullopt;
      const std::string_view label =
          longest ? keep("collections.deque[" + std::to_string(*longest) + "]")
                  : std::string_view("collections.deque");
      PickleShape shape = elements(Kind::kList, ref, label);
      shape.has_state = true;
      return shape;
    }
  }
  if (is_global(function, "_codecs", "encode") && args.size() == 2) {
    // How bytes stand in a pickle of protocol 2.
    return PickleShape{.from = From::kLiteral, .kind = Kind::kBytes, .ref = ref};
  }
  if (module_of_global(function) == "builtins") {
    if (function.name == "set") return container_of(Kind::kSet, {});
    if (function.name == "frozenset") return container_of(Kind::kSet, "frozenset");
    if (function.name == "list") return container_of(Kind::kList, {});
    if (function.name == "tuple") return container_of(Kind::kTuple, {});
    if (function.name == "slice" || function.name == "range" || function.name == "xrange") {
      return elements(Kind::kTuple, graph_.call(ref).args,
                      function.name == "slice" ? "slice" : "range");
    }
    if (function.name == "complex" && args.size() == 2 && real(args[0]) && real(args[1])) {
      return PickleShape{.from = From::kLiteral, .kind = Kind::kComplex128, .ref = ref};
    }
    if (function.name == "bytearray" && args.size() <= 2) {
      if (args.size() != 1) {
        return PickleShape{
            .from = From::kLiteral, .kind = Kind::kBytes, .label = "bytearray", .ref = ref};
      }
      if (graph_.type(args[0]) == PickleType::kBytes) {
        return labelled(literal(args[0]), "bytearray");
      }
      if (graph_.type(args[0]) == PickleType::kCall && encoded_latin(args[0])) {
        return PickleShape{
            .from = From::kLiteral, .kind = Kind::kBytes, .label = "bytearray", .ref = args[0]};
      }
    }
    if (function.name == "bytes" && args.empty()) {
      return PickleShape{.from = From::kLiteral, .kind = Kind::kBytes, .ref = ref};
    }
  }
  if (is_global(function, "copyreg", "_reconstructor") && args.size() == 3) {
    // With another base, it calls the __init__ of that.
    const auto cls = global_of(args[0]);
    const auto base = global_of(args[1]);
    if (cls && base && is_global(*base, "builtins", "object")) {
      return shape_instance(ref, *cls, graph_.call(ref).args);
    }
  }
  if (function.module == "pathlib" || function.module == "pathlib._local") {
    std::string path;
    for (const PickleRef part : args) {
      const auto name = text_of(part);
      if (!name) return std::nullopt;
      if (!path.empty() && !path.ends_with('/')) path += '/';
      path += *name;
    }
    return text(keep(std::move(path)), keep("pathlib." + std::string(function.name)));
  }
  return std::nullopt;
}

std::optional<PickleShape> PickleTree::shape_numpy(PickleGlobal function, PickleRef ref,
                                                   std::span<const PickleRef> args) {
  if (is_numpy(function, "multiarray", "_reconstruct") && graph_.state(ref) != nullptr) {
    PickleShape shape = tensor(ref);
    shape.has_state = true;
    return shape;
  }
  if (is_numpy(function, "numeric", "_frombuffer") && args.size() == 4) return tensor(ref);
  if (is_numpy(function, "multiarray", "scalar") && args.size() == 2) {
    const auto code = numpy_code(args[0]);
    if (!code || !parse_numpy_type(*code)) return std::nullopt;
    return tensor(ref, keep(numpy_scalar(*code)));
  }
  if (function.module == "numpy" && function.name == "dtype" && !args.empty()) {
    if (auto element = numpy_element(ref, 0)) {
      if (element->name.starts_with('|')) element->name.erase(0, 1);
      PickleShape shape = text(keep(std::move(element->name)), "numpy.dtype");
      shape.has_state = true;
      return shape;
    }
  }
  return std::nullopt;
}

// An instance of a class that nobody imports: its fields are what it had in its __dict__.
PickleShape PickleTree::shape_instance(PickleRef ref, PickleGlobal cls, PickleRef args) {
  const std::string_view label = name_of(cls);
  note_path(label);
  const PickleRef* const state = graph_.state(ref);
  const auto given = tuple(args);
  const bool is_plain = !graph_.has_elements(ref) && items_of(ref).empty();
  const bool is_object = graph_.type(ref) == PickleType::kCall || given.empty();
  if (is_plain && is_object && state != nullptr && graph_.type(*state) == PickleType::kDict &&
      is_settled(*state, ref)) {
    const auto pairs = elements_of(*state);
    if (are_keys(pairs, true)) {
      std::vector<Field> named;
      for (std::size_t i = 0; i < pairs.size(); i += 2) {
        named.push_back({key_of(pairs[i], true)->text, pairs[i + 1]});
      }
      return fields(label, named);
    }
  }
  if (is_plain && state == nullptr && is_object) return fields(label, {});
  // A namedtuple, whose class has the names of the fields.
  if (is_plain && state == nullptr) return elements(Kind::kTuple, args, label);
  std::vector<Field> named;
  if (!given.empty() && graph_.type(ref) == PickleType::kNew) named.push_back({"args", args});
  add_parts(named, ref, {});
  return fields(label, named);
}

// What was set on an object, but for what `shape` shows already.
void PickleTree::add_parts(std::vector<Field>& named, PickleRef ref, const PickleShape& shape) {
  const auto is_shown = [&](From from) { return shape.from == from && shape.ref == ref; };
  const PickleRef* const state = graph_.state(ref);
  if (state != nullptr && !shape.has_state) named.push_back({"state", *state});
  if (graph_.has_elements(ref) && !is_shown(From::kElements)) {
    named.push_back({"elements", made(elements(Kind::kList, ref, {}))});
  }
  if (!items_of(ref).empty() && !is_shown(From::kSetItems)) {
    named.push_back({"items", made(dict(ref, From::kSetItems, {}))});
  }
}

// `shape`, or a record of it and of what else was set on the object.
PickleShape PickleTree::whole(const PickleShape& shape, PickleRef ref) {
  std::vector<Field> named;
  // shape_instance() has all parts.
  if (shape.from != From::kFields) add_parts(named, ref, shape);
  if (named.empty()) return shape;
  named.insert(named.begin(), {"data", made(shape)});
  return fields(shape.label, named);
}

PickleShape PickleTree::shape_opaque(PickleRef ref, PickleGlobal function, PickleRef args) {
  const std::string_view name = name_of(function);
  const bool is_named = global_of(graph_.call(ref).callable).has_value();
  note_call(is_named ? name : kUnnamedCall);
  std::vector<Field> named;
  named.push_back({"args", args});
  add_parts(named, ref, {});
  return fields(keep("call:" + std::string(name)), named);
}

void PickleTree::note_call(std::string_view name) {
  ++call_count_;
  if (first_call_.empty()) first_call_ = name;
  code_.add_call(name);
  note_path(name);
}

void PickleTree::note_path(std::string_view name) {
  if (code_.wants_path(name)) code_.set_path(name, path());
}

std::optional<KeyView> PickleTree::key_of(PickleRef ref, bool is_field) {
  if (!ref.is_literal()) return std::nullopt;
  const PickleLiteral literal = graph_.literal(ref);
  if (is_text(literal.type)) {
    const auto text = text_of(ref);
    return text ? std::optional(KeyView::of(*text)) : std::nullopt;
  }
  const bool is_int = literal.type == PickleType::kInt || literal.type == PickleType::kBool;
  return is_int && !is_field ? std::optional(KeyView::of(literal.integer)) : std::nullopt;
}

bool PickleTree::are_keys(std::span<const PickleRef> items, bool are_fields) {
  for (std::size_t i = 0; i < items.size(); i += 2) {
    if (!key_of(items[i], are_fields)) return false;
  }
  return true;
}

}  // namespace espalier
