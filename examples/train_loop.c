/* The training loop of train_loop.cpp in C: it saves in the background, keeps the last, every thousandth and the best checkpoint, and goes on
 * from the latest one that is intact.
 *
 *   train_loop_c FOLDER STEPS [LEVEL]     LEVEL: 0 stores tensors raw, 1 to 9 compresses them */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "espalier.h"

#define INPUTS 20000

/* Linear regression with momentum: what a real program has in a framework. */
static float weights[INPUTS];
static float momentum[INPUTS];

static float input(uint64_t step, size_t i) { return (float)((step * 31 + i * 17) % 13) / 13 - 0.5f; }

static double train(uint64_t step) {
  double error = 0;
  for (size_t i = 0; i < INPUTS; ++i) {
    error += ((double)weights[i] - (double)(i % 7) / 7) * (double)input(step, i);
  }
  for (size_t i = 0; i < INPUTS; ++i) {
    momentum[i] = 0.9f * momentum[i] + (float)error * input(step, i) / (float)INPUTS;
    weights[i] -= 0.1f * momentum[i];
  }
  return error * error;
}

static int report(espalier_error* error) {
  fprintf(stderr, "train_loop_c: %s\n", espalier_error_text(error));
  espalier_error_free(error);
  return 1;
}

static espalier_status read_row(const espalier_file* file, const char* path, float* out, espalier_error** error) {
  espalier_node node = 0;
  const espalier_status status = espalier_at(file, espalier_state(file), path, &node, error);
  return status != ESPALIER_OK ? status : espalier_read(file, node, NULL, 0, out, INPUTS * sizeof *out, error);
}

/* Borrows the row until the save has copied it. */
static espalier_status set_row(espalier_value* state, const char* path, const float* row, espalier_error** error) {
  static const uint64_t shape[1] = {INPUTS};
  espalier_tensor_spec spec = ESPALIER_INIT(spec);
  spec.dtype = espalier_dtype_from_name("f32");
  spec.rank = 1;
  spec.shape = shape;
  spec.data = row;
  spec.data_bytes = INPUTS * sizeof *row;
  espalier_value* tensor = NULL;
  const espalier_status status = espalier_new_tensor(&spec, &tensor, error);
  return status != ESPALIER_OK ? status : espalier_set(state, path, tensor, error);
}

int main(int argc, char** argv) {
  if (argc < 3) return fputs("usage: train_loop_c FOLDER STEPS [LEVEL]\n", stderr), 2;
  const uint64_t steps = strtoull(argv[2], NULL, 10);
  espalier_error* error = NULL;

  espalier_dir_options how = ESPALIER_INIT(how);
  how.keep_last = 2;
  how.keep_every = 1000;
  how.best_metric = "loss";
  espalier_dir* dir = NULL;
  if (espalier_dir_open(argv[1], &how, &dir, &error) != ESPALIER_OK) return report(error);

  uint64_t step = 0;
  espalier_file* file = NULL;
  if (espalier_dir_latest(dir, NULL, &step, &file, &error) != ESPALIER_OK) return report(error);
  if (file != NULL) {
    if (read_row(file, "model/weights", weights, &error) != ESPALIER_OK) return report(error);
    if (read_row(file, "optimizer/momentum", momentum, &error) != ESPALIER_OK) return report(error);
    espalier_close(file);
    fprintf(stderr, "going on from step %" PRIu64 "\n", step);
  }

  espalier_saving* saving = NULL;
  while (step < steps) {
    const double loss = train(step++);
    if (step % 50 != 0 && step != steps) continue;
    if (saving != NULL && espalier_saving_wait(saving, &error) != ESPALIER_OK) return report(error);
    espalier_saving_free(saving);
    espalier_value* state = espalier_new_container(ESPALIER_DICT);
    if (set_row(state, "model/weights", weights, &error) != ESPALIER_OK) return report(error);
    if (set_row(state, "optimizer/momentum", momentum, &error) != ESPALIER_OK) return report(error);
    espalier_value* metadata = espalier_new_container(ESPALIER_DICT);
    if (espalier_set(metadata, "loss", espalier_new_float(loss), &error) != ESPALIER_OK) return report(error);
    espalier_save_options save = ESPALIER_INIT(save);
    save.compression_level = argc > 3 ? atoi(argv[3]) : 0;
    save.metadata = metadata;
    if (espalier_dir_save_async(dir, step, state, 0, &save, &saving, &error) != ESPALIER_OK) return report(error);
    espalier_value_free(metadata);
    espalier_value_free(state);
  }
  if (saving != NULL && espalier_saving_wait(saving, &error) != ESPALIER_OK) return report(error);
  espalier_saving_free(saving);
  espalier_dir_free(dir);

  printf("%.17g\n", (double)weights[INPUTS / 2]);
  return 0;
}
