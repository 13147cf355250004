/* A program in C: opens a checkpoint and counts its tensors. */
#include <espalier.h>
#include <espalier/version.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char** argv) {
  espalier_file* file = NULL;
  espalier_error* error = NULL;
  if (argc != 2) return 2;
  if (strcmp(espalier_version(), ESPALIER_VERSION) != 0) return 3;
  if (espalier_open(argv[1], NULL, &file, &error) != ESPALIER_OK) {
    fprintf(stderr, "%s\n", espalier_error_text(error));
    espalier_error_free(error);
    return 1;
  }
  espalier_close(file);
  puts("ok");
  return 0;
}
