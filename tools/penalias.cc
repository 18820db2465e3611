/// penalias: makes and queries alias tables. Manual: man/penalias.1.
#include "tools/map_tool.h"

int main(int argc, char** argv) { return pen::tools::map_tool(argc, argv, "penalias", pen::tools::Source::aliases); }
