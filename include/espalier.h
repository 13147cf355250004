/* The stable C interface of Espalier, for C and for languages that call C.
 *
 *   espalier_error *error = NULL;
 *   espalier_file *file = NULL;
 *   if (espalier_open("run.espalier", NULL, &file, &error) != ESPALIER_OK) {
 *     fprintf(stderr, "%s\n", espalier_error_text(error));
 *     espalier_error_free(error);
 *     return 1;
 *   }
 *   espalier_node node;
 *   float weight[6];
 *   if (espalier_at(file, espalier_state(file), "model/weight", &node, NULL) == ESPALIER_OK &&
 *       espalier_read(file, node, NULL, 0, weight, sizeof weight, NULL) == ESPALIER_OK) {
 *     use(weight);
 *   }
 *   espalier_close(file);
 *
 * Handles. `espalier_file`, `espalier_list`, `espalier_view`, `espalier_report`, `espalier_value`,
 * `espalier_saving`, `espalier_dir`, `espalier_cancel` and `espalier_error` are opaque. Free each
 * with its own function, which accepts NULL. A pointer that a function returns points into its
 * handle and is valid until that is freed or changed, unless the function says otherwise.
 *
 * NULL. An argument that must not be NULL and is one is an error: ESPALIER_INVALID_ARGUMENT, or for
 * an espalier_value ESPALIER_OUT_OF_MEMORY, because a function that makes one returns NULL if there
 * is no memory. A function that returns no status then returns 0 or NULL. `error`, `options`,
 * `progress` and every `context` may be NULL, and so may memory of size 0.
 *
 * Errors. A function that can fail returns an espalier_status: ESPALIER_OK or the number of an
 * error code, which never changes (docs/errors.md lists them). Its last argument, which may be
 * NULL, receives the error, to be freed; after success it is set to NULL. If there is no memory for
 * the error, it is NULL, too, which all functions of errors take for ESPALIER_OUT_OF_MEMORY. A
 * function that returns a handle to a value returns NULL if there is no memory. No C++ exception
 * leaves a function.
 *
 * Threads. Functions may be called from any thread. One handle may be used by several threads at
 * once as long as none of them changes or frees it.
 *
 * Text is UTF-8. A `const char *` argument ends with a NUL; an espalier_text has its size and no
 * NUL.
 *
 * Structs that may grow begin with their own size. Initialise them with ESPALIER_INIT: a program
 * that was compiled against an older header then works with a newer library.
 */
#ifndef ESPALIER_C_ESPALIER_H_
#define ESPALIER_C_ESPALIER_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__cplusplus) && __cplusplus >= 201103L
/* What ESPALIER_INIT gives: a struct with its size and zeros. */
template <class Struct>
Struct espalier_init_of(const Struct*) {
  Struct made = Struct();
  made.size = sizeof made;
  return made;
}
#endif

#if defined(__GNUC__)
#define ESPALIER_C_API __attribute__((visibility("default")))
#else
#define ESPALIER_C_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Versions ---- */

/* The version of this interface. It grows when functions or members are added. */
#define ESPALIER_ABI_VERSION 2
/* The version of the library that runs. A program compiled against version n needs n or more. */
ESPALIER_C_API uint32_t espalier_abi_version(void);
/* The library's version, for example "0.1.0"; lives for ever. */
ESPALIER_C_API const char* espalier_version(void);

/* A struct whose members are zero but for its size:
 * espalier_open_options options = ESPALIER_INIT(options); */
#if defined(__cplusplus) && __cplusplus >= 201103L
#define ESPALIER_INIT(variable) espalier_init_of(static_cast<decltype(&(variable))>(nullptr))
#elif defined(__cplusplus)
#define ESPALIER_INIT(variable) \
  { sizeof(variable) }
#else
#define ESPALIER_INIT(variable) \
  { .size = sizeof(variable) }
#endif

typedef struct espalier_text {
  const char* data;
  size_t size;
} espalier_text;

/* ---- Errors ---- */

typedef int32_t espalier_status;
#define ESPALIER_OK 0
#define ESPALIER_NOT_FOUND 42
#define ESPALIER_WRONG_KIND 43
#define ESPALIER_INVALID_ARGUMENT 45
#define ESPALIER_OUT_OF_MEMORY 16
#define ESPALIER_IO_ERROR 60
#define ESPALIER_FILE_MISSING 64
#define ESPALIER_CANCELLED 65

typedef struct espalier_error espalier_error;

/* The number that the failing function returned. */
ESPALIER_C_API espalier_status espalier_error_status(const espalier_error* error);
/* The code's name, for example "not_found"; lives for ever. */
ESPALIER_C_API const char* espalier_error_code(const espalier_error* error);
/* All in one line for people: what is wrong, what to do, and where. Printable: what a name from a
 * file could do to a terminal is escaped. */
ESPALIER_C_API const char* espalier_error_text(const espalier_error* error);
/* What is wrong and what to do. Printable, too. */
ESPALIER_C_API const char* espalier_error_message(const espalier_error* error);
/* The key path of the node as it is in the file, or "". Escape it before you print it. */
ESPALIER_C_API const char* espalier_error_path(const espalier_error* error);
/* The offset of the error in the file, or UINT64_MAX. */
ESPALIER_C_API uint64_t espalier_error_offset(const espalier_error* error);
ESPALIER_C_API void espalier_error_free(espalier_error* error);

/* ---- Progress, and giving up ---- */

/* Called with the bytes done and the total, from one thread at a time. Must not throw. */
typedef void (*espalier_progress)(void* context, uint64_t done, uint64_t total);

/* Ends the calls that it is given to: they return ESPALIER_CANCELLED before their next MiB. It must
 * outlive them. */
typedef struct espalier_cancel espalier_cancel;
ESPALIER_C_API espalier_cancel* espalier_new_cancel(void);
/* From any thread, or a signal's handler. */
ESPALIER_C_API void espalier_cancel_set(espalier_cancel* cancel);
ESPALIER_C_API void espalier_cancel_free(espalier_cancel* cancel);

/* ---- Threads and memory of the program ---- */

/* Does all that is left of some work; returns when nothing is left. */
typedef void (*espalier_work)(void* work_context);
/* Calls `work` up to `count` times with `work_context`, from any threads, at once or one after the
 * other, and returns when all these calls have returned. It may call it less often: what is left is
 * done by the thread that called. What `work` calls in turn never calls it. Must not throw. */
typedef void (*espalier_run)(void* context, uint32_t count, espalier_work work, void* work_context);

/* Gives `bytes` bytes for a tensor, at a multiple of `alignment`, or NULL. Called from several
 * threads, and so is the function that takes them back. */
typedef void* (*espalier_allocate)(void* context, size_t bytes, size_t alignment);
typedef void (*espalier_deallocate)(void* context, void* memory, size_t bytes, size_t alignment);

/* ---- Opening ---- */

typedef struct espalier_file espalier_file;

/* Upper bounds for what a file may make the library allocate; espalier/limits.h describes each. 0
 * is the default. */
typedef struct espalier_limits {
  size_t size;
  uint64_t index_bytes;
  uint64_t nodes;
  uint64_t depth;
  uint64_t path_bytes;
  uint64_t text_bytes;
  uint64_t rank;
  uint64_t bigint_bytes;
  uint64_t files;
  uint64_t decoded_bytes;
  uint64_t made_bytes;
  uint64_t pickle_bytes;
  uint64_t foreign_header_bytes;
  uint64_t zip_directory_bytes;
  uint64_t gguf_header_bytes;
} espalier_limits;

/* Fills `out` with `size` bytes of a file from `offset` on. Returns 0, or another number to end the
 * call with ESPALIER_IO_ERROR. Called from several threads at once. */
typedef int (*espalier_read_at)(void* context, uint64_t offset, void* out, size_t size);

/* A file in memory, or anywhere else. */
typedef struct espalier_source {
  size_t size;
  /* Bytes of the file. */
  uint64_t bytes;
  /* All of it in memory, where tensors are then used in place: unchanged until `release`. Align it
   * to 64 bytes, or at least as its elements. NULL for a file that `read` gets. */
  const void* data;
  espalier_read_at read;
  /* Not 0: every read is a request to another machine. */
  uint32_t is_remote;
  /* Called once, with `context`, when the file and its views are gone; may be NULL. */
  void (*release)(void* context);
  void* context;
} espalier_source;

/* Fills `out`, whose `size` is set, with the further file of that name, and returns 0. Returns
 * ESPALIER_FILE_MISSING if there is none: the tensors in it cannot be read then; and any other
 * number for ESPALIER_IO_ERROR. The name comes from a file, and is never a path. */
typedef int (*espalier_sibling)(void* context, const char* name, espalier_source* out);

typedef struct espalier_open_options {
  size_t size;
  /* Threads for reading and verifying; 0 uses every CPU. */
  uint32_t threads;
  /* Not 0: read the file instead of mapping it. A mapped file must not be cut while it is open. */
  uint32_t no_mmap;
  /* Not 0: split names at every dot, so that they are nested dicts. */
  uint32_t nest;
  /* Since version 2. How many threads call `sibling` at the same time; 0 is 1. */
  uint32_t sibling_threads;
  /* May be NULL. */
  const espalier_limits* limits;
  /* The file's own name, without folders, for formats whose further files are named after it. NULL
   * is the last part of the path. */
  const char* name;
  /* Opens the further files of a checkpoint. NULL looks in the folder of the opened file. Called
   * until the file is closed. */
  espalier_sibling sibling;
  void* sibling_context;
  /* Runs what is done in parallel, in place of threads of the library's own; NULL for those. */
  espalier_run run;
  void* run_context;
  /* Where tensors go that are read or decoded for espalier_view_tensor(); NULL is the heap. Without
   * `deallocate`, nothing is taken back. `memory_context` must outlive the file and its views. */
  espalier_allocate allocate;
  espalier_deallocate deallocate;
  void* memory_context;
} espalier_open_options;

/* Opens a checkpoint of any format that the library reads, and validates everything but the
 * tensors' bytes. `options` may be NULL. */
ESPALIER_C_API espalier_status espalier_open(const char* path, const espalier_open_options* options,
                                             espalier_file** out, espalier_error** error);
/* The same from memory, or from a function of yours. After a failure, `release` has been called. */
ESPALIER_C_API espalier_status espalier_open_source(const espalier_source* source,
                                                    const espalier_open_options* options,
                                                    espalier_file** out, espalier_error** error);
ESPALIER_C_API void espalier_close(espalier_file* file);

/* ---- The tree ---- */

/* The number of a node of a file. */
typedef uint32_t espalier_node;

typedef enum espalier_kind {
  ESPALIER_NULL = 1,
  ESPALIER_BOOL = 2,
  ESPALIER_INT64 = 3,
  ESPALIER_BIGINT = 4,
  ESPALIER_FLOAT64 = 5,
  ESPALIER_COMPLEX128 = 6,
  ESPALIER_STRING = 7,
  ESPALIER_BYTES = 8,
  ESPALIER_DICT = 9,
  ESPALIER_LIST = 10,
  ESPALIER_TUPLE = 11,
  ESPALIER_SET = 12,
  ESPALIER_RECORD = 13,
  ESPALIER_TENSOR = 14,
  ESPALIER_PLACEHOLDER = 15
} espalier_kind;

typedef struct espalier_node_info {
  size_t size;
  /* An espalier_kind. */
  uint32_t kind;
  /* Children of a container; they have consecutive numbers from `first_child` on. */
  uint32_t child_count;
  espalier_node first_child;
  /* Whether there is a label: the type that the value had in its program. */
  uint32_t has_label;
  espalier_text label;
  /* A bool (0 or 1) or an int64. */
  int64_t integer;
  /* A float64, or the real part of a complex128. */
  double real;
  double imaginary;
  /* A string, the bytes of bytes, or a bigint as little-endian two's complement. */
  espalier_text text;
} espalier_node_info;

typedef struct espalier_key {
  size_t size;
  /* Not 0: `integer` is the key or position. Otherwise `text` is the key. */
  uint32_t is_integer;
  int64_t integer;
  espalier_text text;
} espalier_key;

/* The roots of the two trees. */
ESPALIER_C_API espalier_node espalier_state(const espalier_file* file);
ESPALIER_C_API espalier_node espalier_metadata(const espalier_file* file);

/* The node at a key path below `from`, for example "model/layers/8/weight"; ESPALIER_NOT_FOUND. */
ESPALIER_C_API espalier_status espalier_at(const espalier_file* file, espalier_node from,
                                           const char* path, espalier_node* out,
                                           espalier_error** error);
/* Fills `info`, whose `size` must be set. ESPALIER_INVALID_ARGUMENT if there is no such node. */
ESPALIER_C_API espalier_status espalier_get_node(const espalier_file* file, espalier_node node,
                                                 espalier_node_info* info, espalier_error** error);
/* The key of child number `i` of a container; its position in a list, tuple or set. */
ESPALIER_C_API espalier_status espalier_get_key(const espalier_file* file, espalier_node parent,
                                                uint32_t i, espalier_key* key,
                                                espalier_error** error);

/* Nodes and their key paths. */
typedef struct espalier_list espalier_list;
/* The nodes of the state that a pattern with wildcards matches, each with all below it, parents
 * first. The pattern for every weight is two stars, a slash and "weight"; docs/cli.md describes
 * them all. */
ESPALIER_C_API espalier_status espalier_find(const espalier_file* file, const char* pattern,
                                             espalier_list** out, espalier_error** error);
ESPALIER_C_API size_t espalier_list_size(const espalier_list* list);
/* 0 and no text if `i` is not less than the size. */
ESPALIER_C_API espalier_node espalier_list_node(const espalier_list* list, size_t i);
ESPALIER_C_API espalier_text espalier_list_path(const espalier_list* list, size_t i);
ESPALIER_C_API void espalier_list_free(espalier_list* list);

/* ---- Tensors ---- */

/* The number of an element type. espalier_dtype_from_name("bf16") finds one; they never change. */
typedef uint32_t espalier_dtype;
/* 0 if there is no such name. */
ESPALIER_C_API espalier_dtype espalier_dtype_from_name(const char* name);
/* For example "bf16", or NULL if there is no such number; lives for ever. */
ESPALIER_C_API const char* espalier_dtype_name(espalier_dtype dtype);
/* Bits of one element; 0 for opaque blocks. */
ESPALIER_C_API uint32_t espalier_dtype_bits(espalier_dtype dtype);

typedef struct espalier_tensor_info {
  size_t size;
  espalier_dtype dtype;
  /* Not 0: dtype and shape without data. */
  uint32_t is_placeholder;
  uint32_t rank;
  /* The number of the tensor: tied nodes have the same one. */
  uint32_t number;
  /* Elements along each axis; valid as long as the file is open. */
  const uint64_t* shape;
  uint64_t elements;
  /* Bytes of the elements, packed; and in the file. */
  uint64_t bytes;
  uint64_t stored_bytes;
  uint32_t has_hash;
  /* Of opaque blocks: the type's name, and elements and bytes of one block. */
  uint32_t block_elements;
  uint32_t block_bytes;
  espalier_text block_name;
  /* One hash of the contents: equal for equal tensors in any file. */
  uint8_t hash[16];
} espalier_tensor_info;

/* ESPALIER_WRONG_KIND if the node is neither a tensor nor a placeholder. */
ESPALIER_C_API espalier_status espalier_get_tensor(const espalier_file* file, espalier_node node,
                                                   espalier_tensor_info* info,
                                                   espalier_error** error);

/* The elements of one axis to read, as in Python's start:stop:step. */
typedef struct espalier_slice {
  /* Not 0: `start` or `stop` is given; otherwise all the way. */
  uint32_t has_start;
  uint32_t has_stop;
  int64_t start;
  int64_t stop;
  /* At least 1. */
  int64_t step;
} espalier_slice;

/* Copies a tensor, or a slice of it, to `out`, which must have exactly its bytes: packed, in C
 * order, little-endian. The slices are of the first axes; the others are whole. Hashes are checked.
 */
ESPALIER_C_API espalier_status espalier_read(const espalier_file* file, espalier_node node,
                                             const espalier_slice* slices, size_t slice_count,
                                             void* out, size_t out_bytes, espalier_error** error);

typedef struct espalier_read_request {
  espalier_node node;
  const espalier_slice* slices;
  size_t slice_count;
  void* out;
  size_t out_bytes;
} espalier_read_request;

/* The same for several at once, in one parallel loop. The memory of two requests must not overlap.
 */
ESPALIER_C_API espalier_status espalier_read_many(const espalier_file* file,
                                                  const espalier_read_request* requests,
                                                  size_t count, espalier_error** error);

/* How one call reads. */
typedef struct espalier_read_options {
  size_t size;
  /* Not 0: bytes that are used in place, in a mapped file, are not checked against their hashes. */
  uint32_t unchecked;
  /* May be NULL. */
  espalier_progress progress;
  void* progress_context;
  const espalier_cancel* cancel;
} espalier_read_options;

/* The same with options. */
ESPALIER_C_API espalier_status espalier_read_many_with(const espalier_file* file,
                                                       const espalier_read_request* requests,
                                                       size_t count,
                                                       const espalier_read_options* options,
                                                       espalier_error** error);

/* The bytes of a whole tensor, in the mapped file if they lie there as they are. */
typedef struct espalier_view espalier_view;
/* Checks the tensor's hashes unless `unchecked` is not 0 and the tensor is used in place. */
ESPALIER_C_API espalier_status espalier_view_tensor(const espalier_file* file, espalier_node node,
                                                    int unchecked, espalier_view** out,
                                                    espalier_error** error);
/* Valid until the view is freed; the file may be closed before. */
ESPALIER_C_API const void* espalier_view_data(const espalier_view* view);
ESPALIER_C_API size_t espalier_view_size(const espalier_view* view);
ESPALIER_C_API void espalier_view_free(espalier_view* view);

/* ---- Verifying ---- */

typedef struct espalier_report espalier_report;
/* Checks every byte of the file. Damage is in the report and no failure. `progress` may be NULL. */
ESPALIER_C_API espalier_status espalier_verify(const espalier_file* file,
                                               espalier_progress progress, void* context,
                                               espalier_report** out, espalier_error** error);
/* The same with options, whose `unchecked` does not count. */
ESPALIER_C_API espalier_status espalier_verify_with(const espalier_file* file,
                                                    const espalier_read_options* options,
                                                    espalier_report** out, espalier_error** error);
/* What a verification says. */
typedef uint32_t espalier_verdict;
#define ESPALIER_VERDICT_OK ((espalier_verdict)0)
/* Nothing is wrong, and the format has nothing to check the tensors' bytes with. */
#define ESPALIER_VERDICT_STRUCTURE_ONLY ((espalier_verdict)1)
/* Nothing is wrong, but files or elements of tensors are missing or are not read. */
#define ESPALIER_VERDICT_INCOMPLETE ((espalier_verdict)2)
#define ESPALIER_VERDICT_DAMAGED ((espalier_verdict)3)
ESPALIER_C_API espalier_verdict espalier_report_verdict(const espalier_report* report);
/* How many further files are missing, are other files, or are refused by the system or a limit: the
 * first errors are about them. */
ESPALIER_C_API uint64_t espalier_report_missing_files(const espalier_report* report);
/* How many tensors of other formats have elements that are not to be had: the errors after those.
 */
ESPALIER_C_API uint64_t espalier_report_missing_tensors(const espalier_report* report);
/* Stored bytes of tensors that were not checked: those without a checksum, and those that need a
 * missing file. */
ESPALIER_C_API uint64_t espalier_report_unchecked(const espalier_report* report);
/* Missing files, missing tensors and damage; 0 if there is none. */
ESPALIER_C_API uint64_t espalier_report_error_count(const espalier_report* report);
/* Error number `i`, or NULL: the report describes the first thousand. Belongs to the report. */
ESPALIER_C_API const espalier_error* espalier_report_error(const espalier_report* report, size_t i);
/* 0 if the format has no hashes. */
ESPALIER_C_API int espalier_report_has_hashes(const espalier_report* report);
/* How many checksums of the format were compared in place of hashes, such as the CRC-32 of a zip
 * archive's entries. If 0, nothing is known of the tensors' bytes. */
ESPALIER_C_API uint64_t espalier_report_checksums(const espalier_report* report);
ESPALIER_C_API void espalier_report_free(espalier_report* report);

/* ---- Building and editing trees ---- */

/* A tree in memory. Copies share tensors. A function that takes a `child` takes it over, also if it
 * fails. NULL is a value that there was no memory for. */
typedef struct espalier_value espalier_value;

ESPALIER_C_API espalier_value* espalier_new_null(void);
ESPALIER_C_API espalier_value* espalier_new_bool(int value);
ESPALIER_C_API espalier_value* espalier_new_int(int64_t value);
/* Little-endian two's complement in as few bytes as possible; NULL for other bytes. */
ESPALIER_C_API espalier_value* espalier_new_bigint(const void* bytes, size_t size);
ESPALIER_C_API espalier_value* espalier_new_float(double value);
ESPALIER_C_API espalier_value* espalier_new_complex(double real, double imaginary);
ESPALIER_C_API espalier_value* espalier_new_string(const char* data, size_t size);
ESPALIER_C_API espalier_value* espalier_new_bytes(const void* data, size_t size);
/* An empty dict, list, tuple, set or record; NULL for other kinds. */
ESPALIER_C_API espalier_value* espalier_new_container(espalier_kind kind);

/* Fills `out` with the `size` bytes of a tensor from `offset` on. Returns 0, or another number to
 * end the save with an error. Called from several threads at once, for each byte once. */
typedef int (*espalier_producer)(void* context, uint64_t offset, void* out, size_t size);

typedef struct espalier_tensor_spec {
  size_t size;
  espalier_dtype dtype;
  uint32_t rank;
  const uint64_t* shape;
  /* The elements, packed in C order, little-endian: borrowed. NULL for a placeholder or a producer;
   * for a tensor without elements, any other pointer. */
  const void* data;
  size_t data_bytes;
  /* Makes the elements when the tree is saved, instead of `data`. */
  espalier_producer produce;
  /* Called once when `data` and `produce` are no longer needed, with `context`; may be NULL. If it
   * is, keep `data` alive and unchanged for as long as the value or a copy of it is used. */
  void (*release)(void* context);
  void* context;
  /* Of opaque blocks only; see espalier_tensor_info. */
  const char* block_name;
  uint32_t block_elements;
  uint32_t block_bytes;
  /* One name for each axis, or NULL. */
  const char* const* axis_names;
} espalier_tensor_spec;

/* After a failure, `release` has been called. */
ESPALIER_C_API espalier_status espalier_new_tensor(const espalier_tensor_spec* spec,
                                                   espalier_value** out, espalier_error** error);

/* Appends to a dict or record. Saving checks that keys are unique. */
ESPALIER_C_API espalier_status espalier_add_text(espalier_value* container, const char* key,
                                                 size_t key_size, espalier_value* child,
                                                 espalier_error** error);
ESPALIER_C_API espalier_status espalier_add_int(espalier_value* container, int64_t key,
                                                espalier_value* child, espalier_error** error);
/* Appends to a list, tuple or set. */
ESPALIER_C_API espalier_status espalier_add(espalier_value* container, espalier_value* child,
                                            espalier_error** error);
/* Puts a value at a key path, in place of what is there; adds dicts on the way. */
ESPALIER_C_API espalier_status espalier_set(espalier_value* root, const char* path,
                                            espalier_value* child, espalier_error** error);
ESPALIER_C_API espalier_status espalier_erase(espalier_value* root, const char* path,
                                              espalier_error** error);
/* Names the type that the value has in its program, for example "collections.OrderedDict". */
ESPALIER_C_API espalier_status espalier_set_label(espalier_value* value, const char* text,
                                                  size_t size, espalier_error** error);
/* A copy. The same tensor at two places of a tree is stored once. */
ESPALIER_C_API espalier_value* espalier_value_copy(const espalier_value* value);
ESPALIER_C_API void espalier_value_free(espalier_value* value);

/* The tree below a node of a file, with all tensors; with `lazily` not 0, tensors are read and
 * checked only when the tree is saved. Of espalier_metadata(), the metadata for
 * espalier_save_options. The file may be closed before the value is freed. */
ESPALIER_C_API espalier_status espalier_load(const espalier_file* file, espalier_node node,
                                             int lazily, espalier_value** out,
                                             espalier_error** error);

/* The same, at once and with options. */
ESPALIER_C_API espalier_status espalier_load_with(const espalier_file* file, espalier_node node,
                                                  const espalier_read_options* options,
                                                  espalier_value** out, espalier_error** error);

/* ---- Key maps ---- */

typedef struct espalier_map_options {
  size_t size;
  /* Not 0: from the right side of the map to the left one. */
  uint32_t reverse;
  /* Not 0: leave out the rules that have no inverse, instead of failing. */
  uint32_t partial;
  /* Not 0: do not read the tensors that the map says are equal or zero. */
  uint32_t unchecked;
  /* The model's configuration as JSON, whose words the map computes with; may be NULL. */
  const char* config;
  /* Numbers for words of the map, before those of the map and of `config`. */
  const char* const* names;
  const double* numbers;
  size_t number_count;
  /* A checkpoint with the tree that is to be made, whose tensors are not read; may be NULL. */
  const espalier_file* like;
  const espalier_cancel* cancel;
} espalier_map_options;

/* The JSON of a key map that comes with the library, such as "llama-meta"; no text if there is no
 * such map. Lives for ever. */
ESPALIER_C_API espalier_text espalier_known_map(const char* name);
/* What a key map, as JSON, makes of a checkpoint: planned and proved before a tensor is read. The
 * result reads as any file; its tensors are made when they are read. Load and save it to keep it.
 */
ESPALIER_C_API espalier_status espalier_map(const espalier_file* file, const char* map,
                                            size_t map_size, const espalier_map_options* options,
                                            espalier_file** out, espalier_error** error);

/* ---- Saving ---- */

typedef uint32_t espalier_unrepresentable;
/* Fail with "unrepresentable"; the message names the first values. */
#define ESPALIER_UNREPRESENTABLE_ERROR ((espalier_unrepresentable)0)
/* Leave them out. */
#define ESPALIER_UNREPRESENTABLE_DROP ((espalier_unrepresentable)1)
/* Carry the whole tree in the file's metadata. */
#define ESPALIER_UNREPRESENTABLE_METADATA ((espalier_unrepresentable)2)

/* A checkpoint whose file a new one may refer to, and the name under which whoever opens the new
 * file finds it in the folder of that. */
typedef struct espalier_save_base {
  const espalier_file* file;
  const char* name;
} espalier_save_base;

typedef struct espalier_save_options {
  size_t size;
  /* 0 stores tensors as they are; 1 (fast) to 9 (thorough) compresses them. */
  int32_t compression_level;
  uint32_t threads;
  /* Not 0: return without waiting until the disk has the file. */
  uint32_t no_sync;
  /* Not 0: fail if the file exists. */
  uint32_t no_replace;
  /* A dict without tensors, or NULL. */
  const espalier_value* metadata;
  /* May be NULL. */
  espalier_progress progress;
  void* progress_context;
  /* Not 0: tensors that espalier_load() found in an Espalier file are taken over as they are stored
   * there, with their hashes, which is faster. Damage in them is taken over too. By default every
   * byte is checked. */
  uint32_t take_over;
  /* What espalier_save_safetensors() does with values that safetensors cannot hold. */
  espalier_unrepresentable unrepresentable;
  /* Since version 2. May be NULL. */
  const espalier_cancel* cancel;
  /* A bound for the buffers of all threads, in bytes; 0 for none. */
  uint64_t memory_bytes;
  /* What the new file may refer to, instead of having it: see SaveOptions::bases in
   * espalier/save_options.h. */
  const espalier_save_base* bases;
  size_t base_count;
  /* The largest part of a file without bases that one with bases may take; 0 is 0.6. */
  double most_of_full;
  /* Not 0: store no chunk as the differences from one of a base. */
  uint32_t no_patches;
  /* As of espalier_open_options. A save in the background calls it from its own thread. */
  espalier_run run;
  void* run_context;
} espalier_save_options;

/* Saves a tree as an Espalier file, completely or not at all: after an error the old file is
 * unchanged. `options` may be NULL. */
ESPALIER_C_API espalier_status espalier_save(const char* path, const espalier_value* state,
                                             const espalier_save_options* options,
                                             espalier_error** error);
/* The same as a safetensors file, which holds tensors in nested dicts with text keys, and text: see
 * `unrepresentable`. */
ESPALIER_C_API espalier_status espalier_save_safetensors(const char* path,
                                                         const espalier_value* state,
                                                         const espalier_save_options* options,
                                                         espalier_error** error);

/* Where a save writes to. Each returns 0, or another number to end the save with ESPALIER_IO_ERROR.
 */
typedef struct espalier_sink {
  size_t size;
  /* The file will have so many bytes; 0 if that is not known yet. May be NULL. */
  int (*reserve)(void* context, uint64_t bytes);
  /* Puts bytes at an offset. Called from several threads at once; ranges do not overlap, and come
   * in no order. Bytes that are never written must be zero. */
  int (*write)(void* context, uint64_t offset, const void* data, size_t size);
  /* All is written. Without it the file must not count as saved. */
  int (*commit)(void* context);
  void* context;
} espalier_sink;

ESPALIER_C_API espalier_status espalier_save_sink(const espalier_sink* sink,
                                                  const espalier_value* state,
                                                  const espalier_save_options* options,
                                                  espalier_error** error);
/* Saves to memory: the bytes of the file are those of the view. */
ESPALIER_C_API espalier_status espalier_save_memory(const espalier_value* state,
                                                    const espalier_save_options* options,
                                                    espalier_view** out, espalier_error** error);

/* A save that runs in the background. */
typedef struct espalier_saving espalier_saving;
/* Begins espalier_save() and returns. Tensors in memory are copied before it returns, unless
 * `borrows` is not 0: do not change or free them then until the save is done. Errors of the save
 * come from espalier_saving_wait(). */
ESPALIER_C_API espalier_status espalier_save_async(const char* path, const espalier_value* state,
                                                   int borrows,
                                                   const espalier_save_options* options,
                                                   espalier_saving** out, espalier_error** error);
/* Waits until the save is done, and returns what espalier_save() would. Every call gives the same.
 * Never call it, nor espalier_saving_free(), in a function that the save itself runs: it would wait
 * for itself.
 */
ESPALIER_C_API espalier_status espalier_saving_wait(const espalier_saving* saving,
                                                    espalier_error** error);
/* Not 0 if espalier_saving_wait() would return at once. */
ESPALIER_C_API int espalier_saving_is_done(const espalier_saving* saving);
/* Bytes done and in total, which is 0 until the first are written. Either pointer may be NULL. */
ESPALIER_C_API void espalier_saving_progress(const espalier_saving* saving, uint64_t* done,
                                             uint64_t* total);
/* Gives the save up, and does not wait. */
ESPALIER_C_API void espalier_saving_cancel(const espalier_saving* saving);
/* Waits until the save is done; its error is lost, so call espalier_saving_wait() before. */
ESPALIER_C_API void espalier_saving_free(espalier_saving* saving);

/* ---- Folders of checkpoints ---- */

/* A folder with a file for each step: see espalier/checkpoint_dir.h for what is removed, and when.
 */
typedef struct espalier_dir espalier_dir;

typedef struct espalier_dir_options {
  size_t size;
  /* Not 0: remove nothing; the rules below do not count. */
  uint32_t keep_all;
  /* Not 0: a save refers to what the newest checkpoint has already. */
  uint32_t incremental;
  /* The steps with the greatest numbers; 0 is 3. */
  uint64_t keep_last;
  /* Every step that is a multiple of this, for ever; 0 for none. */
  uint64_t keep_every;
  /* Key path of a number in the metadata, by which the best are kept; NULL for none. */
  const char* best_metric;
  /* Not 0: the greatest is best, and not the least. */
  uint32_t best_is_greatest;
  /* How many of the best to keep; 0 is 1. */
  uint32_t best_count;
  /* How checkpoints are opened; may be NULL. */
  const espalier_open_options* open;
} espalier_dir_options;

/* Opens a folder; makes it and those above it if they are missing. `options` may be NULL. */
ESPALIER_C_API espalier_status espalier_dir_open(const char* folder,
                                                 const espalier_dir_options* options,
                                                 espalier_dir** out, espalier_error** error);
/* Saves the checkpoint of a step, and then removes those that the rules do not keep. */
ESPALIER_C_API espalier_status espalier_dir_save(const espalier_dir* dir, uint64_t step,
                                                 const espalier_value* state,
                                                 const espalier_save_options* options,
                                                 espalier_error** error);
ESPALIER_C_API espalier_status espalier_dir_save_async(const espalier_dir* dir, uint64_t step,
                                                       const espalier_value* state, int borrows,
                                                       const espalier_save_options* options,
                                                       espalier_saving** out,
                                                       espalier_error** error);
/* Opens the latest checkpoint whose every byte is intact, and sets `step`. If the folder has none
 * at all, `out` is NULL and the status ESPALIER_OK. If there are some and none is intact, the error
 * is that of the latest. */
ESPALIER_C_API espalier_status espalier_dir_latest(const espalier_dir* dir,
                                                   const espalier_read_options* options,
                                                   uint64_t* step, espalier_file** out,
                                                   espalier_error** error);
/* The steps that have a file, ascending: as many as fit go to `steps`; `count` is set to all. */
ESPALIER_C_API espalier_status espalier_dir_steps(const espalier_dir* dir, uint64_t* steps,
                                                  size_t capacity, size_t* count,
                                                  espalier_error** error);
/* The path of the file of a step, with a NUL, as far as it fits. Returns its bytes without the NUL.
 */
ESPALIER_C_API size_t espalier_dir_path(const espalier_dir* dir, uint64_t step, char* out,
                                        size_t out_size);
/* What the last save could not remove or read. */
ESPALIER_C_API espalier_status espalier_dir_problems(const espalier_dir* dir, espalier_report** out,
                                                     espalier_error** error);
/* Keeps other processes from saving to the folder, as the first save does by itself; and lets them
 * again, once saves in the background are done. */
ESPALIER_C_API espalier_status espalier_dir_lock(const espalier_dir* dir, espalier_error** error);
ESPALIER_C_API void espalier_dir_unlock(const espalier_dir* dir);
/* Saves in the background go on. */
ESPALIER_C_API void espalier_dir_free(espalier_dir* dir);

#ifdef __cplusplus
}
#endif

#endif /* ESPALIER_C_ESPALIER_H_ */
