#include "tools/verify_tool.h"

int main(int argc, char** argv) { return pen::service::run_tool<pen::tools::VerifyTool>(argc, argv); }
