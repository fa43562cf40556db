"""The command line. Importing it loads neither Spark nor SQL nor numeric libraries."""
