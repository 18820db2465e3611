#include "tools/suppress_tool.h"

int main(int argc, char** argv) { return pen::service::run_tool<pen::tools::SuppressTool>(argc, argv); }
