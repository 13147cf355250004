// The values of a pickle as nodes of a tree.
#ifndef ESPALIER_FOREIGN_PICKLE_PICKLE_TREE_H_
#define ESPALIER_FOREIGN_PICKLE_PICKLE_TREE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "espalier/codec/hash.h"
#include "espalier/foreign/common/foreign_tensor.h"
#include "espalier/foreign/numpy/numpy_type.h"
#include "espalier/foreign/pickle/named_code.h"
#include "espalier/foreign/pickle/pickle_graph.h"
#include "espalier/format/table_builder.h"
#include "espalier/key_path.h"
#include "espalier/kind.h"
#include "espalier/limits.h"
#include "espalier/notes.h"

namespace espalier {

template <class Source>
class TreeWalk;

inline constexpr std::string_view kRepeatedKey =
    "a dict has the same key twice; Python writes no such pickle";

/// A node of the tree: a value of the pickle, or a shape that was made for it.
struct PickleNode {
  PickleNode(PickleRef value) : ref(value) {}  // NOLINT(google-explicit-constructor)
  static PickleNode made(std::uint32_t number) {
    PickleNode node(PickleRef::object(0));
    node.shape = number + 1;
    return node;
  }

  PickleRef ref;
  std::uint32_t shape = 0;  // number of a shape, plus 1
};

/// What a node becomes.
struct PickleShape {
  enum class From : std::uint8_t {
    kNothing,   // null
    kLiteral,   // the literal `ref`
    kText,      // `text`, as a string
    kElements,  // children: the elements of `ref`
    kItems,     // a dict: the elements of the dict `ref`
    kSetItems,  // a dict: what was set on `ref`
    kPairs,     // a dict: the elements of `ref`, each a key and its value
    kFields,    // named children: fields
    kNodes,     // children: fields without their names
    kTensor,    // what read_tensor() finds at `ref`
  };
  From from = From::kNothing;
  Kind kind = Kind::kNull;
  bool has_state = false;  // the state of its object is in it
  /// Empty for none. Text of the pickle, or of the tree.
  std::string_view label = {};
  std::string_view text = {};
  PickleRef ref = PickleRef::object(0);
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

/// Says what the values of a graph become: a Source of TreeWalk. It knows Python's own types and
/// those of numpy; a subclass knows more. Unknown classes and functions become records
/// labelled with their names: nothing is imported or called.
class PickleTree {
 public:
  using Node = PickleNode;

  /// The children of a container, open as long as the walk is below it.
  class Children {
   public:
    Children(PickleTree& tree, std::optional<PickleRef> open) : tree_(&tree), open_(open) {}
    Children(Children&& other) noexcept
        : tree_(other.tree_),
          open_(std::exchange(other.open_, std::nullopt)),
          keys_(std::move(other.keys_)),
          nodes_(std::move(other.nodes_)) {}
    Children& operator=(Children&&) = delete;
    ~Children() {
      if (open_) tree_->open_[open_->number()] = 0;
    }
    std::size_t size() const { return nodes_.size(); }
    bool has_keys() const { return !keys_.empty(); }
    KeyView key(std::size_t i) const { return keys_[i]; }
    Node node(std::size_t i) const { return nodes_[i]; }

   private:
    friend class PickleTree;
    PickleTree* tree_;
    std::optional<PickleRef> open_;
    std::vector<KeyView> keys_;
    std::vector<Node> nodes_;
  };

  /// `graph` must outlive the tree. `notes` gets a note of kCode for each name that `is_data` does
  /// not know, wherever in the pickle it stands.
  PickleTree(const PickleGraph& graph, const Limits& limits, Notes& notes,
             NamedCode::IsData is_data);
  PickleTree(const PickleTree&) = delete;
  PickleTree& operator=(const PickleTree&) = delete;
  virtual ~PickleTree() = default;

  // The Source of a TreeWalk.
  bool add(TableBuilder& builder, Node node, bool in_metadata);
  bool is_container(Node node);
  Children children(Node node);

  /// Adds the state and its metadata to `builder`. Call once. The error of what the pickle itself
  /// has wrong, such as kForeignInvalid; finish() of the builder tells the others.
  [[nodiscard]] Result<void> add_to(TableBuilder& builder);
  /// The path of the node at which the builder failed, if it did.
  const std::string& failed_path() const { return failed_path_; }

  /// Tensors in the tree so far, those without data included.
  std::uint64_t tensor_count() const { return tensor_count_; }
  /// Calls that became opaque records, and the name of the first.
  std::uint64_t call_count() const { return call_count_; }
  const std::string& first_call() const { return first_call_; }

 protected:
  using From = PickleShape::From;

  const PickleGraph& graph() const { return graph_; }

  /// What a call or an instance becomes that this class does not know; nothing if the subclass does
  /// not know it either.
  virtual std::optional<PickleShape> shape_call(PickleGlobal function, PickleRef call,
                                                std::span<const PickleRef> args);
  virtual std::optional<PickleShape> shape_global(PickleGlobal global);
  virtual PickleShape shape_persistent(PickleRef ref);
  /// Reads the tensor that a shape of From::kTensor stands for. If it cannot be given, sets
  /// `missing` to the reason, a clause: it becomes a placeholder.
  virtual bool read_tensor(PickleRef ref, ForeignTensor& tensor, std::string& missing);
  /// Gives an opaque tensor without axes one of length 1, with a note: blocks lie along an axis.
  void give_axis(ForeignTensor& tensor);
  /// Where bytes of the pickle, or others that must be kept, can be read as bytes of a file.
  struct Place {
    std::uint16_t file = 0;
    std::uint64_t offset = 0;
  };
  virtual std::optional<Place> place_bytes(ByteSpan bytes) = 0;

  PickleShape shape_of(Node node);
  PickleShape shape_of_ref(PickleRef ref);
  /// Refuses the whole file.
  PickleShape refuse(std::string_view message, ErrorCode code = ErrorCode::kForeignInvalid);
  /// Notes something at the node that is being added.
  void note(Note::Kind kind, std::string message);
  /// The path of the node that is being added.
  std::string path() const;
  /// Notes a call that Python would make, at the node that is being added.
  void note_call(std::string_view name);
  /// What another pickle names that is inside this one.
  NamedCode& code() { return code_; }
  /// A call that is understood although it is no node of the tree: it is not noted.
  void explain_call(PickleRef ref) { is_explained_[ref.number()] = true; }
  /// Counts work on values that many calls may share. Refuses the file if it is too much.
  void count_steps(std::uint64_t steps);

  // Makers of shapes.
  PickleShape literal(PickleRef ref) const;
  PickleShape labelled(PickleShape shape, std::string_view label);
  static PickleShape text(std::string_view text, std::string_view label);
  PickleShape elements(Kind kind, PickleRef ref, std::string_view label) const;
  struct Field {
    std::string_view name;
    Node node;
  };
  PickleShape fields(std::string_view label, std::span<const Field> named);
  PickleShape nodes(Kind kind, std::string_view label, std::span<const Node> children);
  PickleShape tensor(PickleRef ref, std::string_view label = {}) const;
  Node made(PickleShape shape);
  /// Keeps text as long as the tree, once if it comes again.
  std::string_view keep(std::string text);
  /// "module.name", kept.
  std::string_view name_of(PickleGlobal global);

  // Readers of arguments. Python reads them when it makes the call, so only what can't change later
  // tells what it saw: a tuple can't, and is_settled() says whether something else did.
  std::span<const PickleRef> tuple(PickleRef ref) const { return graph_.tuple(ref); }
  bool is_tuple(PickleRef ref) const {
    return !ref.is_literal() && graph_.type(ref) == PickleType::kTuple;
  }
  /// Of a call or an instance.
  std::span<const PickleRef> args_of(PickleRef ref) const { return tuple(graph_.call(ref).args); }
  /// Whether a value is as `user` saw it, the call or instance whose argument or state it is.
  bool is_settled(PickleRef ref, PickleRef user) const;
  /// Whether it is a tuple, or a list that is as `user` saw it.
  bool is_sequence(PickleRef ref, PickleRef user) const;
  /// The elements of a container, or the items that were set on an object.
  std::vector<PickleRef> elements_of(PickleRef ref);
  std::vector<PickleRef> items_of(PickleRef ref);
  /// The keys and values by turns of a dict of this origin.
  std::vector<PickleRef> items_of(PickleRef ref, From from);
  bool are_pairs(PickleRef ref, PickleRef user);
  std::optional<std::int64_t> integer(PickleRef ref) const;
  /// A bool, or an int in place of one.
  std::optional<bool> boolean(PickleRef ref) const;
  /// A float or an int.
  std::optional<double> real(PickleRef ref) const;
  /// Text that is UTF-8.
  std::optional<std::string_view> text_of(PickleRef ref);
  /// Whether it is this text, of ASCII, written without escapes.
  bool equals_text(PickleRef ref, std::string_view text) const;
  /// Bytes, also those that protocol 2 keeps as text, which stay until the next call.
  std::optional<ByteSpan> bytes_of(PickleRef ref);
  /// Sets `numbers` to those of a tuple or torch.Size of ints from 0 on; to none, and false, for
  /// anything else.
  bool read_sizes(PickleRef ref, std::vector<std::uint64_t>& numbers);
  std::optional<PickleGlobal> global_of(PickleRef ref) const;

 private:
  static constexpr std::uint32_t kMetadataShape = 0;
  static constexpr int kMaxFieldNesting = 8;
  /// What making a text costs: see count_steps().
  static constexpr std::uint64_t kMadeBytesPerStep = 4;
  static constexpr std::string_view kGlobalLabel = "python.global";
  static constexpr std::string_view kItemsLabel = "dict.items";

  PickleShape shape_object(PickleRef ref);
  std::optional<PickleShape> shape_python(PickleGlobal function, PickleRef ref,
                                          std::span<const PickleRef> args);
  std::optional<PickleShape> shape_numpy(PickleGlobal function, PickleRef ref,
                                         std::span<const PickleRef> args);
  bool add_tensor(TableBuilder& builder, PickleRef ref);
  bool read_array(PickleRef ref, ForeignTensor& tensor, std::string& missing);
  std::optional<std::string_view> numpy_code(PickleRef ref);
  struct NumpyElement {
    NumpyType type;
    std::string name;  // as a .npy file has it
    std::string axes;  // of a subarray: "2, 3", or "3,"
  };
  std::optional<NumpyElement> numpy_element(PickleRef ref, int depth);
  std::optional<std::string> numpy_fields(PickleRef names, PickleRef fields, std::uint64_t bytes,
                                          int depth);
  bool read_numpy_dtype(PickleRef ref, ForeignTensor& tensor, std::string& missing);
  PickleShape shape_instance(PickleRef ref, PickleGlobal cls, PickleRef args);
  PickleShape shape_opaque(PickleRef ref, PickleGlobal function, PickleRef args);
  PickleShape whole(const PickleShape& shape, PickleRef ref);
  void add_parts(std::vector<Field>& named, PickleRef ref, const PickleShape& shape);
  void find_hidden_calls();
  void note_path(std::string_view name);
  void fill(Children& found, const PickleShape& shape);
  PickleShape dict(PickleRef ref, From from, std::string_view label);
  /// The key that a value of the pickle is, if it can be one.
  std::optional<KeyView> key_of(PickleRef ref, bool is_field);
  bool are_keys(std::span<const PickleRef> items, bool are_fields);
  using Identities = std::set<std::pair<std::uint64_t, std::uint64_t>>;
  Hash128 identity_of(PickleRef key, int depth);
  /// Whether no key that is equal in Python was seen before.
  bool is_first(PickleRef key, Identities& seen);
  bool add_literal(TableBuilder& builder, PickleRef ref);
  bool add_called(TableBuilder& builder, const PickleShape& shape);
  void add_bigint(TableBuilder& builder, const PickleLiteral& literal);
  std::optional<std::string> encoded_latin(PickleRef ref);
  std::string_view unescaped(const PickleLiteral& literal);
  std::optional<std::size_t> open_depth(Node node) const;
  void keep_attributes(PickleRef ref);

  const PickleGraph& graph_;
  const Limits& limits_;
  Notes& notes_;
  const TreeWalk<PickleTree>* walk_ = nullptr;
  std::set<std::string> texts_;
  std::uint64_t text_bytes_ = 0;
  std::uint64_t steps_ = 0;
  std::string latin_;  // what bytes_of() decoded last
  std::vector<PickleShape> shapes_;
  // By object: the number of the shape that is kept for it, plus 1, and that of its tensor, plus 1.
  std::vector<std::uint32_t> known_;
  std::vector<std::uint32_t> tensors_;
  std::vector<bool> is_explained_;
  // Tensors by where they lie and a hash of all that tells them apart. Most files have them in the
  // order of their storages, so most come last.
  std::map<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>, std::uint32_t> tied_;
  std::vector<Field> fields_;
  // By object: if the walk is inside it, how many containers are around it, plus 1.
  std::vector<std::uint32_t> open_;
  std::uint64_t nodes_ = 2;
  std::uint32_t nesting_ = 0;
  // Scratch, whose memory every tensor uses again.
  ForeignTensor tensor_;
  std::vector<std::uint64_t> words_;
  std::uint64_t tensor_count_ = 0;
  std::vector<Field> attributes_;
  bool has_metadata_ = false;  // It has the attributes.
  NamedCode code_;
  std::uint64_t call_count_ = 0;
  std::string first_call_;
  std::string failed_path_;
  std::optional<Error> error_;
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_PICKLE_PICKLE_TREE_H_
