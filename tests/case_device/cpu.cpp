#include "tests/support/case_run.h"

astatide::Device astatide::testing::case_device() { return Device::cpu(); }
