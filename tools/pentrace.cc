#include "tools/trace_tool.h"

int main(int argc, char** argv) { return pen::service::run_tool<pen::tools::TraceTool>(argc, argv); }
