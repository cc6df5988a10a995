#pragma once

#include <string>
#include <vector>

#include "api/astatide.h"
#include "api/astatide_c.h"

// What stands behind the handles of the C interface.

struct AstatideError {
  struct Problem {
    std::string file;
    int line = 0, column = 0;
    std::string message, notes;
  };
  AstatideStatus status = ASTATIDE_STATUS_OK;
  std::string text;
  std::vector<Problem> problems;
};

struct AstatideAlgorithm {
  astatide::Algorithm value;
};

struct AstatideSchedule {
  astatide::Schedule value;
};

struct AstatideEngine {
  astatide::Engine value;
};

struct AstatideExecutable {
  astatide::Executable value;
  astatide::Device device;
};
