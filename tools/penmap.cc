/// penmap: makes and queries look-up tables. Manual: man/penmap.1.
#include "tools/map_tool.h"

int main(int argc, char** argv) { return pen::tools::map_tool(argc, argv, "penmap", pen::tools::Source::table); }
