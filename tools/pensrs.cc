#include "tools/srs_tool.h"

int main(int argc, char** argv) { return pen::service::run_tool<pen::tools::SrsTool>(argc, argv); }
