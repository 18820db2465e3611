#include "tools/lock_tool.h"

int main(int argc, char** argv) { return pen::service::run_tool<pen::tools::LockTool>(argc, argv); }
