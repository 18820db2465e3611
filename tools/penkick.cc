#include "tools/kick_tool.h"

int main(int argc, char** argv) { return pen::service::run_tool<pen::tools::KickTool>(argc, argv); }
