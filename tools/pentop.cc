#include "tools/top_tool.h"

int main(int argc, char** argv) { return pen::service::run_tool<pen::tools::TopTool>(argc, argv); }
