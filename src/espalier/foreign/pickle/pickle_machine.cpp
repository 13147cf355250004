// The stack machine of pickles, without the parts that do anything.
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "espalier/base/little_endian.h"
#include "espalier/foreign/pickle/literal.h"
#include "espalier/foreign/pickle/opcode.h"
#include "espalier/foreign/pickle/pickle_graph.h"

namespace espalier {
namespace {

constexpr std::uint64_t kMaxPickleBytes = (std::uint64_t{1} << 31) - 1;
constexpr std::uint64_t kFreeMemory = std::uint64_t{1} << 20;
constexpr std::size_t kLongestName = 4096;
constexpr std::uint8_t kLastProtocol = 5;

std::string name_of(PickleOp op) {
  constexpr std::string_view kHex = "0123456789abcdef";
  const auto byte = static_cast<std::uint8_t>(op);
  return std::string("opcode 0x") + kHex[byte >> 4] + kHex[byte & 0xF];
}

std::string_view type_name(PickleType type) {
  constexpr std::string_view kNames[] = {
      "None",        "a bool",      "an int",  "an int",
      "a float",     "a str",       "a str",   "a bytes",
      "a bytearray", "a tuple",     "a list",  "a dict",
      "a set",       "a frozenset", "a class", "a persistent object",
      "an object",   "an object"};
  return kNames[static_cast<std::size_t>(type)];
}

}  // namespace

class PickleMachine {
 public:
  PickleMachine(ByteSpan bytes, std::uint64_t file_offset)
      : bytes_(bytes), file_offset_(file_offset), graph_(bytes) {}

  Result<PickleGraph> run() {
    if (bytes_.size() > kMaxPickleBytes) {
      return fail(ErrorCode::kLimitExceeded, "the pickle has 2 GiB or more", file_offset_);
    }
    while (!is_stopped_) {
      if (has_negative_length()) {
        bad("a length is negative");
        return tl::unexpected<Error>(*error_);
      }
      const auto span = at_ < bytes_.size() ? find_argument(bytes_, at_) : std::nullopt;
      if (!span) {
        return fail(ErrorCode::kTruncated,
                    "the pickle ends in the middle; copy or download the file again",
                    file_offset_ + bytes_.size());
      }
      span_ = *span;
      if (!execute(static_cast<PickleOp>(bytes_[at_]))) return tl::unexpected<Error>(*error_);
      at_ = span_.next;
      if (memory_ > kFreeMemory + PickleGraph::kMostMemory * at_) {
        return fail(ErrorCode::kLimitExceeded,
                    "the pickle's objects take more than " +
                        std::to_string(PickleGraph::kMostMemory) + " times the memory of its bytes",
                    file_offset_ + at_);
      }
    }
    graph_.size_ = at_;
    // The tree is built beside it.
    graph_.objects_.shrink_to_fit();
    graph_.refs_.shrink_to_fit();
    return std::move(graph_);
  }

  // What there is after run() failed.
  PickleGraph begun() {
    graph_.size_ = at_;
    return std::move(graph_);
  }

 private:
  using Object = PickleGraph::Object;
  using Chain = PickleGraph::Chain;

  bool bad(std::string_view what, ErrorCode code = ErrorCode::kForeignInvalid) {
    if (!error_) {
      error_ = Error{code, file_offset_ + at_, {}, "the pickle is damaged: " + std::string(what)};
    }
    return false;
  }

  ByteSpan argument() const { return bytes_.subspan(span_.begin, span_.end - span_.begin); }
  std::uint64_t fixed_argument() const {
    return load_number(bytes_.data() + span_.begin, span_.end - span_.begin);
  }

  // The stack.
  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  bool has(std::size_t values) { return stack_.size() - floor() >= values || underflow(); }
  bool underflow() { return bad("it takes more from the stack than there is"); }
  bool push(PickleRef ref) {
    stack_.push_back(ref);
    if (stack_.size() > highest_) {
      highest_ = stack_.size();
      memory_ += sizeof(PickleRef);
    }
    return true;
  }
  PickleRef pop() {
    const PickleRef ref = stack_.back();
    stack_.pop_back();
    return ref;
  }
  // Where the values above the topmost mark begin; the mark goes.
  std::optional<std::size_t> take_mark() {
    if (marks_.empty()) {
      bad("it takes the values above a mark, and there is no mark");
      return std::nullopt;
    }
    const std::size_t mark = marks_.back();
    marks_.pop_back();
    return mark;
  }

  // The graph.
  std::uint32_t add_refs(std::span<const PickleRef> refs) {
    memory_ += refs.size_bytes();
    const auto first = static_cast<std::uint32_t>(graph_.refs_.size());
    graph_.refs_.insert(graph_.refs_.end(), refs.begin(), refs.end());
    return first;
  }
  PickleRef add_object(PickleType type, std::uint32_t a = 0, std::uint32_t b = 0,
                       std::uint32_t extras = 0) {
    memory_ += sizeof(Object);
    graph_.objects_.push_back({type, extras, a, b});
    return PickleRef::object(static_cast<std::uint32_t>(graph_.objects_.size() - 1));
  }
  bool push_pair(PickleType type, PickleRef first, PickleRef second) {
    const PickleRef pair[] = {first, second};
    return push(add_object(type, add_refs(pair)));
  }
  PickleRef tuple(std::span<const PickleRef> elements, PickleType type = PickleType::kTuple) {
    // An empty one cannot change, so one is enough.
    if (elements.empty() && type == PickleType::kTuple) {
      if (!empty_tuple_) empty_tuple_ = add_object(type);
      return *empty_tuple_;
    }
    const std::uint32_t first = add_refs(elements);
    return add_object(type, first, static_cast<std::uint32_t>(elements.size()));
  }
  bool push_tuple(std::size_t first, PickleType type = PickleType::kTuple) {
    const PickleRef made = tuple(std::span(stack_).subspan(first), type);
    stack_.resize(first, made);
    return push(made);
  }

  void extend(Chain& chain, std::span<const PickleRef> refs) {
    if (refs.empty()) return;
    auto& batches = graph_.batches_;
    const std::uint32_t first = add_refs(refs);
    const auto count = static_cast<std::uint32_t>(refs.size());
    if (chain.last != 0) {
      auto& last = batches[chain.last - 1];
      if (last.first + last.count == first) {
        last.count += count;
        return;
      }
    }
    memory_ += sizeof(PickleGraph::Batch);
    batches.push_back({0, first, count});
    const auto number = static_cast<std::uint32_t>(batches.size());
    if (chain.last != 0) batches[chain.last - 1].next = number;
    if (chain.first == 0) chain.first = number;
    chain.last = number;
  }

  // Of an instance: see is_instance().
  PickleGraph::Extras& extras(PickleRef ref) {
    Object& object = graph_.objects_[ref.number()];
    if (object.extras == 0) {
      memory_ += sizeof(PickleGraph::Extras);
      graph_.extras_.emplace_back();
      object.extras = static_cast<std::uint32_t>(graph_.extras_.size());
    }
    return graph_.extras_[object.extras - 1];
  }

  bool is_instance(PickleType type) const {
    return type == PickleType::kCall || type == PickleType::kNew || type == PickleType::kPersistent;
  }

  // Appends to a list, adds to a set, or sets the items of a dict, or what is taken for one.
  bool add_to(PickleRef target, PickleType wanted, std::size_t first) {
    const auto refs = std::span(stack_).subspan(first);
    if (wanted == PickleType::kDict && refs.size() % 2 != 0) {
      return bad("it sets a key without a value");
    }
    const PickleType type = graph_.type(target);
    if (type == wanted) {
      Object& object = graph_.objects_[target.number()];
      Chain chain{object.a, object.b};
      extend(chain, refs);
      object.a = chain.first;
      object.b = chain.last;
    } else if (is_instance(type)) {
      PickleGraph::Extras& more = extras(target);
      extend(wanted == PickleType::kDict ? more.items : more.elements, refs);
    } else {
      return bad("it adds elements to " + std::string(type_name(type)));
    }
    stack_.resize(first, target);
    return true;
  }

  // The same for all above the topmost mark.
  bool add_marked(PickleType wanted) {
    const auto first = take_mark();
    if (!first || !has_below(*first)) return false;
    return add_to(stack_[*first - 1], wanted, *first);
  }
  bool add_last(PickleType wanted, std::size_t count) {
    if (!has(count + 1)) return false;
    return add_to(stack_[stack_.size() - count - 1], wanted, stack_.size() - count);
  }
  bool has_below(std::size_t first) { return first > floor() || underflow(); }

  bool push_container(PickleType type, std::size_t first) {
    const PickleRef made = add_object(type);
    stack_.insert(stack_.begin() + static_cast<std::ptrdiff_t>(first), made);
    return add_to(made, type, first + 1);
  }

  bool make_global() {
    const std::string_view rest = as_text(bytes_.subspan(at_ + 1));
    const std::size_t module = rest.find('\n');
    const std::size_t name =
        module == std::string_view::npos ? module : rest.find('\n', module + 1);
    if (name == std::string_view::npos) {
      return bad("it ends in the name of a class", ErrorCode::kTruncated);
    }
    if (module > kLongestName || name - module - 1 > kLongestName) return long_name();
    span_.next = at_ + 1 + name + 1;
    return push(add_object(PickleType::kGlobal, static_cast<std::uint32_t>(at_ + 1)));
  }
  bool long_name() {
    return bad("the name of a class has more than " + std::to_string(kLongestName) + " bytes");
  }

  bool make_stack_global() {
    if (!has(2)) return false;
    const PickleRef name = pop();
    const PickleRef module = pop();
    for (const PickleRef part : {module, name}) {
      if (!part.is_literal()) return bad("the name of a class is no text");
      const PickleLiteral text = graph_.literal(part);
      const bool is_text = text.type == PickleType::kText || text.type == PickleType::kOldText;
      if (!is_text || text.is_escaped) return bad("the name of a class is no text");
      if (text.bytes.size() > kLongestName) return long_name();
    }
    return push(add_object(PickleType::kGlobal, module.number(), name.number(), 1));
  }

  bool call(PickleType type) {
    if (!has(2)) return false;
    const PickleRef args = pop();
    return push_pair(type, pop(), args);
  }

  // OBJ and INST: of the class below, or of the one that the opcode names, with what is above the
  // mark as arguments. Python calls whatever the name stands for, so this is a call.
  bool call_marked(bool names_class) {
    if (names_class && !make_global()) return false;
    const std::optional<PickleRef> named = names_class ? std::optional(pop()) : std::nullopt;
    const auto mark = take_mark();
    if (!mark) return false;
    const std::size_t first = *mark + (names_class ? 0 : 1);
    if (first > stack_.size()) return underflow();
    const PickleRef of = named ? *named : stack_[*mark];
    const PickleRef args = tuple(std::span(stack_).subspan(first));
    stack_.resize(*mark, of);
    return push_pair(PickleType::kCall, of, args);
  }

  bool new_with_keywords() {
    if (!has(3)) return false;
    const PickleRef keywords = pop();
    const PickleRef args = pop();
    const PickleRef both[] = {args, keywords};
    const bool has_keywords =
        graph_.type(keywords) != PickleType::kDict || graph_.has_elements(keywords);
    return push_pair(PickleType::kNew, pop(), has_keywords ? tuple(both) : args);
  }

  bool build() {
    if (!has(2)) return false;
    const PickleRef state = pop();
    // On a class, this would change what all its instances do.
    const PickleType type = graph_.type(stack_.back());
    if (type != PickleType::kCall && type != PickleType::kNew) {
      return bad("it sets the state of " + std::string(type_name(type)));
    }
    PickleGraph::Extras& more = extras(stack_.back());
    if (more.refs_before != 0) return bad("it sets the state of one object twice");
    more.refs_before = static_cast<std::uint32_t>(graph_.refs_.size()) + 1;
    more.state = state;
    return true;
  }

  // The memo. Python numbers its entries from 0 on; a number far beyond must not take memory.
  bool put(std::uint64_t number) {
    if (!has(1)) return false;
    if (number < memo_.size()) {
      memo_[static_cast<std::size_t>(number)] = stack_.back();
    } else if (number == memo_.size()) {
      memory_ += sizeof(PickleRef);
      memo_.push_back(stack_.back());
      // MEMOIZE counts the entries, and this one must not count twice.
      sparse_memo_.erase(number);
    } else {
      memory_ += 8 * sizeof(PickleRef);
      sparse_memo_.insert_or_assign(number, stack_.back());
    }
    return true;
  }
  bool get(std::uint64_t number) {
    if (number < memo_.size()) return push(memo_[static_cast<std::size_t>(number)]);
    const auto found = sparse_memo_.find(number);
    if (found == sparse_memo_.end()) return bad("GET " + std::to_string(number) + " names nothing");
    return push(found->second);
  }
  std::optional<std::uint64_t> line_number() {
    std::uint64_t number = 0;
    const std::string_view line = as_text(argument());
    for (const char c : line) {
      if (c < '0' || c > '9' || number > kMaxPickleBytes) {
        bad("the number of a memo is no number");
        return std::nullopt;
      }
      number = number * 10 + static_cast<std::uint64_t>(c - '0');
    }
    return line.empty() ? std::nullopt : std::optional(number);
  }

  bool push_literal(PickleOp op) {
    if (op == PickleOp::kFloat) {
      error_ =
          Error{ErrorCode::kUnsupportedFeature,
                file_offset_ + at_,
                {},
                "the pickle has a float in decimal digits, as protocol 0 writes it, which is not "
                "read; ask its author for a safetensors or .espalier file"};
      return false;
    }
    if (form_of(op).is_line && !is_valid_line(op, as_text(argument()))) {
      return bad("a literal of protocol 0 is malformed");
    }
    return push(PickleRef::literal(static_cast<std::uint32_t>(at_)));
  }

  bool stop() {
    if (!has(1)) return false;
    if (stack_.size() != 1 || !marks_.empty()) return bad("it ends with values left on its stack");
    graph_.root_ = stack_.back();
    is_stopped_ = true;
    return true;
  }

  // An i32 below 0 is 2 GiB or more as a u32, which no argument has.
  bool has_negative_length() const {
    return at_ + 5 <= bytes_.size() && form_of(static_cast<PickleOp>(bytes_[at_])).is_signed &&
           load_le<std::int32_t>(bytes_.data() + at_ + 1) < 0;
  }

  bool execute(PickleOp op) {
    if (form_of(op).is_literal) return push_literal(op);
    switch (op) {
      case PickleOp::kProto:
        if (fixed_argument() > kLastProtocol) {
          error_ = Error{ErrorCode::kUnsupportedVersion,
                         file_offset_ + at_,
                         {},
                         "the pickle has protocol " + std::to_string(fixed_argument()) +
                             ", and the last known one is 5"};
          return false;
        }
        return true;
      case PickleOp::kFrame:  // Python reads all of it before what is in it.
        return fixed_argument() <= bytes_.size() - span_.next ||
               bad("it ends in a frame", ErrorCode::kTruncated);
      case PickleOp::kStop:
        return stop();
      case PickleOp::kMark:
        memory_ += sizeof(std::size_t);
        marks_.push_back(stack_.size());
        return true;
      case PickleOp::kPop:
        if (stack_.size() == floor() && !marks_.empty()) {
          marks_.pop_back();
          return true;
        }
        if (!has(1)) return false;
        stack_.pop_back();
        return true;
      case PickleOp::kPopMark: {
        const auto mark = take_mark();
        if (mark) stack_.erase(stack_.begin() + static_cast<std::ptrdiff_t>(*mark), stack_.end());
        return mark.has_value();
      }
      case PickleOp::kDup:
        return has(1) && push(stack_.back());
      case PickleOp::kEmptyTuple:
        return push(tuple({}));
      case PickleOp::kTuple1:
        return has(1) && push_tuple(stack_.size() - 1);
      case PickleOp::kTuple2:
        return has(2) && push_tuple(stack_.size() - 2);
      case PickleOp::kTuple3:
        return has(3) && push_tuple(stack_.size() - 3);
      case PickleOp::kTuple:
      case PickleOp::kFrozenSet: {
        const auto mark = take_mark();
        return mark && push_tuple(*mark, op == PickleOp::kTuple ? PickleType::kTuple
                                                                : PickleType::kFrozenSet);
      }
      case PickleOp::kEmptyList:
        return push(add_object(PickleType::kList));
      case PickleOp::kEmptyDict:
        return push(add_object(PickleType::kDict));
      case PickleOp::kEmptySet:
        return push(add_object(PickleType::kSet));
      case PickleOp::kList:
      case PickleOp::kDict: {
        const auto mark = take_mark();
        return mark &&
               push_container(op == PickleOp::kList ? PickleType::kList : PickleType::kDict, *mark);
      }
      case PickleOp::kAppend:
        return add_last(PickleType::kList, 1);
      case PickleOp::kAppends:
        return add_marked(PickleType::kList);
      case PickleOp::kAddItems:
        return add_marked(PickleType::kSet);
      case PickleOp::kSetItem:
        return add_last(PickleType::kDict, 2);
      case PickleOp::kSetItems:
        return add_marked(PickleType::kDict);
      case PickleOp::kGlobal:
        return make_global();
      case PickleOp::kStackGlobal:
        return make_stack_global();
      case PickleOp::kReduce:
        return call(PickleType::kCall);
      case PickleOp::kNewObj:
        return call(PickleType::kNew);
      case PickleOp::kNewObjEx:
        return new_with_keywords();
      case PickleOp::kObj:
        return call_marked(false);
      case PickleOp::kInst:
        return call_marked(true);
      case PickleOp::kBuild:
        return build();
      case PickleOp::kBinPersId: {
        if (!has(1)) return false;
        const PickleRef id[] = {pop()};
        return push(add_object(PickleType::kPersistent, add_refs(id)));
      }
      case PickleOp::kMemoize:
        return put(memo_.size() + sparse_memo_.size());
      case PickleOp::kBinPut:
      case PickleOp::kLongBinPut:
        return put(fixed_argument());
      case PickleOp::kBinGet:
      case PickleOp::kLongBinGet:
        return get(fixed_argument());
      case PickleOp::kPut: {
        const auto number = line_number();
        return number ? put(*number) : bad("a memo has no number");
      }
      case PickleOp::kGet: {
        const auto number = line_number();
        return number ? get(*number) : bad("a memo has no number");
      }
      case PickleOp::kExt1:
      case PickleOp::kExt2:
      case PickleOp::kExt4:
      case PickleOp::kPersId:
      case PickleOp::kNextBuffer:
      case PickleOp::kReadonlyBuffer:
        error_ = Error{
            ErrorCode::kUnsupportedFeature,
            file_offset_ + at_,
            {},
            "the pickle needs something outside it (" + name_of(op) + "); no checkpoint does"};
        return false;
      default:
        return bad(name_of(op) + " is none");
    }
  }

  ByteSpan bytes_;
  std::uint64_t file_offset_;
  PickleGraph graph_;
  std::vector<PickleRef> stack_;
  std::vector<std::size_t> marks_;
  std::vector<PickleRef> memo_;
  // Sorted: keys that collide in a hash table would make a file slow.
  std::map<std::uint64_t, PickleRef> sparse_memo_;
  std::optional<PickleRef> empty_tuple_;
  std::size_t at_ = 0;
  OpSpan span_;              // of the argument of the opcode at `at_`
  std::size_t highest_ = 0;  // the stack's
  std::uint64_t memory_ = 0;
  bool is_stopped_ = false;
  std::optional<Error> error_;
};

Result<PickleGraph> run_pickle(ByteSpan bytes, std::uint64_t file_offset) {
  return PickleMachine(bytes, file_offset).run();
}

PickleGraph begun_pickle(ByteSpan bytes) {
  PickleMachine machine(bytes, 0);
  auto graph = machine.run();
  return graph ? std::move(*graph) : machine.begun();
}

}  // namespace espalier
